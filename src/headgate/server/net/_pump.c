/* What a connection does nearly always, compiled: the twins of `PurePump`, `pure_serve`,
 * `pure_let_go_all` and `pure_deliver_all` in pump.py, which say what each of them is. What happens seldom is a method of
 * the connection in Python and called by its name: mailboxes, limits, closing, broken sockets, TLS.
 *
 * A socket is read and written here only where the connection says that it is direct: a plain
 * socket that does not block. The lock of the interpreter is released while something is sent,
 * which takes longest, and not for a recv, which copies what is there. Only the thread of the
 * loop touches a pump, so nothing about one changes meanwhile.
 */

#include "../../core/channels/_passes.h"
#include <errno.h>
#include <string.h>
#include <structmember.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define READ_BYTES (64 * 1024) /* as in pump.py */
#define HELD_BYTES 4096        /* as in pump.py */
#define TOGETHER 32 /* sockets that are sent to before the lock is taken again */
#define JOINED_BYTES (64 * 1024) /* frames that are put together without room of their own */

typedef struct Row Row;

typedef struct {
    PyObject_HEAD
    int fileno;
    char is_direct, is_reading, is_writing, is_ending;
    Row *row; /* it is sent to with others, and does not know yet what came of it; or nothing */
    Py_ssize_t place; /* its own there */
    long long bytes_in, bytes_out;
    double heard;
    PyObject *held; /* bytes */
    PyObject *poller, *pipe, *recv, *send, *reader;
} Pump;

/* Sockets that are sent to in a row, without the lock of the interpreter: all the same, or each the
 * frames of its session. */
struct Row {
    PyObject *blob, *messages; /* held by who delivers; or nothing */
    Frames *frames; /* held by who delivers, as many as pumps; or nothing */
    int is_sent;
    Py_ssize_t count;
    Pump *pumps[TOGETHER]; /* held */
    int files[TOGETHER], errors[TOGETHER];
    Py_ssize_t sent[TOGETHER];
};

/* Names of what is called in Python. */
static PyObject *_by_pipe_deliver, *_by_pipe_ready, *_answering, *_broken, *_failed, *_fell_short,
    *_hung_up, *_is_serving, *_keep, *_receive, *_unreadable, *_unusual;
static PyObject *nothing; /* no bytes */
static PyObject *answer;  /* how many messages an answer is */
static const BlobsPort *blobs_port;
static PyTypeObject *Pump_Type;

static PyObject *
Pump_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Pump *self = (Pump *)type->tp_alloc(type, 0); /* a subclass takes the arguments */
    if (self != NULL) {
        self->fileno = -1;
        self->held = Py_NewRef(nothing);
    }
    return (PyObject *)self;
}

static int
Pump_traverse(Pump *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->poller);
    Py_VISIT(self->pipe);
    Py_VISIT(self->recv);
    Py_VISIT(self->send);
    Py_VISIT(self->reader);
    return 0;
}

static int
Pump_clear(Pump *self)
{
    Py_CLEAR(self->poller);
    Py_CLEAR(self->pipe);
    Py_CLEAR(self->recv);
    Py_CLEAR(self->send);
    Py_CLEAR(self->reader);
    return 0;
}

static void
Pump_dealloc(Pump *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Pump_clear(self);
    Py_XDECREF(self->held);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Call something of Python's and forget what it returns. */
static int
done(PyObject *result)
{
    if (result == NULL)
        return -1;
    Py_DECREF(result);
    return 0;
}

/* The error that was set, with its traceback; nothing is set then. */
static PyObject *
taken_error(void)
{
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(error, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return error;
}

/* Tell a connection of an error of its socket, by a method of its own. */
static int
tell_error(Pump *self, PyObject *name, int number)
{
    errno = number;
    PyErr_SetFromErrno(PyExc_OSError);
    PyObject *error = taken_error();
    int failed = done(PyObject_CallMethodOneArg((PyObject *)self, name, error));
    Py_DECREF(error);
    return failed;
}

static inline int
is_for_later(int number)
{
    return number == EAGAIN || number == EWOULDBLOCK || number == EINTR;
}

/* Writing. */

static int pump_deliver(Pump *self, PyObject *blob, PyObject *messages);
static int pump_settle(Pump *self);

static int
pump_let_go(Pump *self)
{
    if (self->row != NULL && pump_settle(self) < 0)
        return -1;
    if (self->held == nothing)
        return 0;
    PyObject *held = self->held;
    self->held = Py_NewRef(nothing);
    int failed = pump_deliver(self, held, answer);
    Py_DECREF(held);
    return failed;
}

/* Whether a message may be sent to its socket as things are, by nobody but us. */
static inline int
is_open(Pump *self)
{
    return self->is_direct && !self->is_writing && !self->is_ending && self->held == nothing
           && self->row == NULL;
}

/* What came of sending: so many bytes of the blob, or an error. */
static int
pump_sent(Pump *self, PyObject *blob, PyObject *messages, Py_ssize_t sent, int number)
{
    if (sent < 0) {
        if (self->is_ending)
            return 0;
        if (!is_for_later(number))
            return tell_error(self, _broken, number);
        sent = 0;
    }
    self->bytes_out += sent;
    if (sent == PyBytes_GET_SIZE(blob) || self->is_ending)
        return 0;
    PyObject *size = PyLong_FromSsize_t(sent);
    if (size == NULL)
        return -1;
    PyObject *given[] = {(PyObject *)self, blob, size, messages};
    int failed = done(PyObject_VectorcallMethod(_fell_short, given, 4, NULL));
    Py_DECREF(size);
    return failed;
}

static int
pump_deliver(Pump *self, PyObject *blob, PyObject *messages)
{
    if (pump_let_go(self) < 0)
        return -1;
    if (self->is_ending)
        return 0;
    if (self->is_writing || !self->is_direct || !PyBytes_Check(blob)) {
        PyObject *given[] = {(PyObject *)self, blob, messages};
        PyObject *name = self->is_writing ? _keep : _by_pipe_deliver;
        return done(PyObject_VectorcallMethod(name, given, 3, NULL));
    }
    Py_ssize_t sent, size = PyBytes_GET_SIZE(blob);
    const char *bytes = PyBytes_AS_STRING(blob);
    int fileno = self->fileno, number;
    Py_BEGIN_ALLOW_THREADS
    sent = send(fileno, bytes, (size_t)size, MSG_NOSIGNAL);
    number = errno;
    Py_END_ALLOW_THREADS
    return pump_sent(self, blob, messages, sent, number);
}

static PyObject *
Pump_deliver(Pump *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "what is delivered is a blob and its messages");
        return NULL;
    }
    return pump_deliver(self, args[0], args[1]) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
Pump_let_go(Pump *self, PyObject *unused)
{
    return pump_let_go(self) < 0 ? NULL : Py_NewRef(Py_None);
}

/* Have a pump let go of what it holds when everybody was served. */
static int
let_go_then(Pump *self)
{
    PyObject *answering = PyObject_GetAttr(self->poller, _answering);
    if (answering == NULL)
        return -1;
    int failed = -1;
    if (PyList_Check(answering))
        failed = PyList_Append(answering, (PyObject *)self);
    else
        PyErr_SetString(PyExc_TypeError, "who answers is in a list of the poller's");
    Py_DECREF(answering);
    return failed;
}

static PyObject *
Pump_write(Pump *self, PyObject *blob)
{
    if (!PyBytes_Check(blob)) {
        PyErr_SetString(PyExc_TypeError, "an answer is bytes");
        return NULL;
    }
    int is_held = 0;
    if (self->poller != NULL
        && PyBytes_GET_SIZE(self->held) + PyBytes_GET_SIZE(blob) <= HELD_BYTES) {
        PyObject *serving = PyObject_GetAttr(self->poller, _is_serving);
        if (serving == NULL)
            return NULL;
        is_held = serving == Py_True;
        Py_DECREF(serving);
    }
    if (!is_held)
        return pump_deliver(self, blob, answer) < 0 ? NULL : Py_NewRef(Py_None);
    if (self->held != nothing) {
        PyBytes_Concat(&self->held, blob);
        if (self->held == NULL) {
            self->held = Py_NewRef(nothing);
            return NULL;
        }
        Py_RETURN_NONE;
    }
    if (let_go_then(self) < 0)
        return NULL;
    Py_SETREF(self->held, Py_NewRef(PyBytes_GET_SIZE(blob) ? blob : nothing));
    Py_RETURN_NONE;
}

/* Reading. */

/* What a socket has, and how much that is; or nothing, and the number of an error below zero. The
 * room for it is on the stack for no longer than it takes. */
static __attribute__((noinline)) PyObject *
received(int fileno, Py_ssize_t *size)
{
    char buffer[READ_BYTES];
    *size = recv(fileno, buffer, READ_BYTES, 0);
    if (*size < 0) {
        *size = -errno;
        return NULL;
    }
    return PyBytes_FromStringAndSize(buffer, *size);
}

static int
pump_ready(Pump *self, PyObject *events)
{
    long which = PyLong_AsLong(events);
    if (which == -1 && PyErr_Occurred())
        return -1;
    if (which != EPOLLIN)
        return done(PyObject_CallMethodOneArg((PyObject *)self, _unusual, events));
    if (!self->is_reading)
        return 0;
    if (!self->is_direct)
        return done(PyObject_CallMethodOneArg((PyObject *)self, _by_pipe_ready, events));
    Py_ssize_t size;
    PyObject *data = received(self->fileno, &size);
    if (data == NULL && size >= 0)
        return -1;
    if (size < 0) {
        int number = (int)-size;
        return is_for_later(number) ? 0 : tell_error(self, _unreadable, number);
    }
    if (!size) {
        Py_DECREF(data);
        return done(PyObject_CallMethodNoArgs((PyObject *)self, _hung_up));
    }
    self->bytes_in += size;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    self->heard = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    if (self->is_ending || self->reader == NULL) {
        Py_DECREF(data);
        return 0;
    }
    PyObject *reader = Py_NewRef(self->reader); /* it may be gone when it was told */
    int failed = done(PyObject_CallMethodOneArg(reader, _receive, data));
    Py_DECREF(reader);
    Py_DECREF(data);
    if (failed && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyObject *error = taken_error();
        failed = done(PyObject_CallMethodOneArg((PyObject *)self, _failed, error));
        Py_DECREF(error);
    }
    return failed;
}

static PyObject *
Pump_ready(Pump *self, PyObject *events)
{
    return pump_ready(self, events) < 0 ? NULL : Py_NewRef(Py_None);
}

/* Many at once. */

/* The pump behind a call, if the call is this method of one. */
static inline Pump *
pump_of(PyObject *call, PyCFunction method)
{
    if (PyCFunction_CheckExact(call) && PyCFunction_GET_FUNCTION(call) == method)
        return (Pump *)PyCFunction_GET_SELF(call);
    return NULL;
}

/* Tell somebody of the error that was set, if it is one that a call may raise. */
static int
tell_failed(PyObject *failed)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyObject *error = taken_error();
    int is_bad = done(PyObject_CallOneArg(failed, error));
    Py_DECREF(error);
    return is_bad;
}

static PyObject *
serve(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyList_Check(args[0]) || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "a list of who is ready, a dict of calls and a call");
        return NULL;
    }
    PyObject *found = args[0], *calls = args[1], *failed = args[2];
    int has_others = 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(found); at++) {
        PyObject *pair = PyList_GET_ITEM(found, at);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
            PyErr_SetString(PyExc_TypeError, "a descriptor and what it is ready for");
            return NULL;
        }
        PyObject *call = PyDict_GetItemWithError(calls, PyTuple_GET_ITEM(pair, 0));
        if (call == NULL) {
            if (PyErr_Occurred())
                return NULL;
            has_others = 1;
            continue;
        }
        Py_INCREF(call);
        Py_INCREF(pair);
        Pump *pump = pump_of(call, (PyCFunction)(void (*)(void))Pump_ready);
        PyObject *events = PyTuple_GET_ITEM(pair, 1);
        int is_bad = pump != NULL ? pump_ready(pump, events)
                                  : done(PyObject_CallOneArg(call, events));
        Py_DECREF(pair);
        Py_DECREF(call);
        if (is_bad && tell_failed(failed) < 0)
            return NULL;
    }
    return PyBool_FromLong(has_others);
}

static PyObject *
let_go_all(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyList_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "a list of pumps and a call");
        return NULL;
    }
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(args[0]); at++) {
        PyObject *each = PyList_GET_ITEM(args[0], at);
        if (!PyObject_TypeCheck(each, Pump_Type)) {
            PyErr_SetString(PyExc_TypeError, "who holds answers is a pump");
            return NULL;
        }
        Py_INCREF(each);
        int is_bad = pump_let_go((Pump *)each);
        Py_DECREF(each);
        if (is_bad && tell_failed(args[1]) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static void
put_together(char *to, const Frames *frames)
{
    for (Py_ssize_t at = 0; at < frames->count; at++) {
        Py_ssize_t size = PyBytes_GET_SIZE(frames->frames[at]);
        memcpy(to, PyBytes_AS_STRING(frames->frames[at]), (size_t)size);
        to += size;
    }
}

/* Send the frames of a session. The room for them is on the stack for no longer than it takes, so
 * it is warm; the lock of the interpreter is not held, and not needed for what somebody holds. */
static __attribute__((noinline)) Py_ssize_t
send_frames(int fileno, const Frames *frames)
{
    char few[JOINED_BYTES];
    char *bytes = frames->size <= JOINED_BYTES ? few : PyMem_RawMalloc((size_t)frames->size);
    if (bytes == NULL) {
        errno = EAGAIN; /* it waits in the mailbox, whose limits are the ones that count */
        return -1;
    }
    put_together(bytes, frames);
    Py_ssize_t sent = send(fileno, bytes, (size_t)frames->size, MSG_NOSIGNAL);
    int number = errno;
    if (bytes != few)
        PyMem_RawFree(bytes);
    errno = number;
    return sent;
}

static int
row_send(Row *row)
{
    /* Who is gone by now has a closed socket, whose number may be somebody else's. */
    for (Py_ssize_t at = 0; at < row->count; at++)
        if (row->pumps[at]->is_ending)
            row->files[at] = -1;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < row->count; at++) {
        row->sent[at] = row->frames != NULL
                            ? send_frames(row->files[at], row->frames + at)
                            : send(row->files[at], PyBytes_AS_STRING(row->blob),
                                   (size_t)PyBytes_GET_SIZE(row->blob), MSG_NOSIGNAL);
        row->errors[at] = errno;
    }
    Py_END_ALLOW_THREADS
    row->is_sent = 1;
    int failed = 0;
    for (Py_ssize_t at = 0; at < row->count; at++) {
        Pump *pump = row->pumps[at];
        /* What is called for one may already have asked for something of another. */
        if (pump->row == row && failed) {
            pump->row = NULL;
            pump->bytes_out += row->sent[at] > 0 ? row->sent[at] : 0;
        } else if (pump->row == row)
            failed = pump_settle(pump);
        if (row->frames != NULL)
            blobs_port->let_go(row->frames + at);
        Py_DECREF(pump);
    }
    row->count = row->is_sent = 0;
    return failed;
}

/* The frames of a session as a blob, for who needs an object. */
static PyObject *
joined(const Frames *frames)
{
    PyObject *blob = PyBytes_FromStringAndSize(NULL, frames->size);
    if (blob != NULL)
        put_together(PyBytes_AS_STRING(blob), frames);
    return blob;
}

/* Learn what came of the row that it is in, before anything else is done with it. */
static int
pump_settle(Pump *self)
{
    Row *row = self->row;
    if (!row->is_sent)
        return row_send(row);
    self->row = NULL;
    Py_ssize_t sent = row->sent[self->place];
    int number = row->errors[self->place];
    if (row->frames == NULL)
        return pump_sent(self, row->blob, row->messages, sent, number);
    const Frames *frames = row->frames + self->place;
    if (sent == frames->size) {
        self->bytes_out += sent;
        return 0;
    }
    PyObject *blob = joined(frames), *messages = PyLong_FromLongLong(frames->messages);
    int failed = blob == NULL || messages == NULL ? -1 : 0;
    if (!failed)
        failed = pump_sent(self, blob, messages, sent, number);
    Py_XDECREF(blob);
    Py_XDECREF(messages);
    return failed;
}

/* Nobody in a row is sent to: it is over with an error, as for those behind them. */
static void
row_forget(Row *row)
{
    for (Py_ssize_t at = 0; at < row->count; at++) {
        row->pumps[at]->row = NULL;
        Py_DECREF(row->pumps[at]);
        if (row->frames != NULL)
            blobs_port->let_go(row->frames + at);
    }
}

/* One blob to all of these. */
static int
deliver_one(PyObject *calls, PyObject *blob, PyObject *const *sessions, Py_ssize_t count,
            PyObject *messages)
{
    Row row;
    row.blob = blob;
    row.messages = messages;
    row.frames = NULL;
    row.is_sent = 0;
    row.count = 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *call = PyDict_GetItemWithError(calls, sessions[at]);
        if (call == NULL) { /* S002-9: who is gone is skipped */
            if (PyErr_Occurred())
                goto failed;
            continue;
        }
        Pump *pump = pump_of(call, (PyCFunction)(void (*)(void))Pump_deliver);
        if (pump != NULL && count > 1 && is_open(pump) && PyBytes_Check(blob)) {
            pump->row = &row;
            pump->place = row.count;
            row.pumps[row.count] = (Pump *)Py_NewRef(pump);
            row.files[row.count++] = pump->fileno;
            if (row.count == TOGETHER && row_send(&row) < 0)
                return -1;
            continue;
        }
        Py_INCREF(call);
        PyObject *given[] = {blob, messages};
        int is_bad = pump != NULL ? pump_deliver(pump, blob, messages)
                                  : done(PyObject_Vectorcall(call, given, 2, NULL));
        Py_DECREF(call);
        if (is_bad)
            goto failed;
    }
    return row.count ? row_send(&row) : 0;
failed:
    row_forget(&row);
    return -1;
}

/* A blob of the frames of a session: to a session that cannot be sent to with others, or to who
 * delivers the rest, as Python makes them. */
static int
deliver_blob(PyObject *call, const Frames *frames, PyObject *rest)
{
    PyObject *blob = joined(frames), *messages = PyLong_FromLongLong(frames->messages);
    int failed = blob == NULL || messages == NULL ? -1 : 0;
    if (!failed && call != NULL) {
        Pump *pump = pump_of(call, (PyCFunction)(void (*)(void))Pump_deliver);
        PyObject *given[] = {blob, messages};
        Py_INCREF(call);
        failed = pump != NULL ? pump_deliver(pump, blob, messages)
                              : done(PyObject_Vectorcall(call, given, 2, NULL));
        Py_DECREF(call);
    } else if (!failed) {
        PyObject *each = Py_BuildValue("(O(O)O)", blob, frames->session, messages);
        failed = each == NULL ? -1 : PyList_Append(rest, each);
        Py_XDECREF(each);
    }
    Py_XDECREF(blob);
    Py_XDECREF(messages);
    return failed;
}

/* To each session what it hears, while each has frames of its own. */
static int
deliver_apart(PyObject *blobs, PyObject *calls, Py_ssize_t *room, PyObject *rest)
{
    Frames frames[TOGETHER];
    Row row;
    row.blob = row.messages = NULL;
    row.frames = frames;
    row.is_sent = 0;
    row.count = 0;
    int more;
    while ((more = blobs_port->next(blobs, frames + row.count)) > 0) {
        Frames this = frames[row.count];
        PyObject *call = NULL;
        int is_bad = 0;
        if (--*room >= 0 && (call = PyDict_GetItemWithError(calls, this.session)) == NULL) {
            is_bad = PyErr_Occurred() != NULL; /* S002-9: who is gone is skipped */
        } else {
            Pump *pump = call == NULL ? NULL
                                      : pump_of(call, (PyCFunction)(void (*)(void))Pump_deliver);
            if (pump != NULL && is_open(pump)) {
                pump->row = &row;
                pump->place = row.count;
                row.pumps[row.count] = (Pump *)Py_NewRef(pump);
                row.files[row.count++] = pump->fileno;
                if (row.count == TOGETHER && row_send(&row) < 0)
                    return -1;
                continue;
            }
            is_bad = deliver_blob(call, &this, rest);
        }
        blobs_port->let_go(&this);
        if (is_bad) {
            row_forget(&row);
            return -1;
        }
    }
    if (more < 0) {
        row_forget(&row);
        return -1;
    }
    return row.count ? row_send(&row) : 0;
}

static PyObject *
deliver_all(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "blobs, a dict of calls and how many deliveries");
        return NULL;
    }
    PyObject *calls = args[1], *each;
    Py_ssize_t room = PyLong_AsSsize_t(args[2]);
    if (room == -1 && PyErr_Occurred())
        return NULL;
    PyObject *rest = PyList_New(0), *blobs = PyObject_GetIter(args[0]);
    if (rest == NULL || blobs == NULL)
        goto failed;
    if (Py_IS_TYPE(blobs, blobs_port->type)
        && deliver_apart(blobs, calls, &room, rest) < 0)
        goto failed;
    while ((each = PyIter_Next(blobs)) != NULL) {
        int is_bad = 0;
        if (!PyTuple_Check(each) || PyTuple_GET_SIZE(each) != 3
            || !PyTuple_Check(PyTuple_GET_ITEM(each, 1))) {
            PyErr_SetString(PyExc_TypeError, "bytes, a tuple of sessions, and their messages");
            is_bad = 1;
        } else {
            PyObject *sessions = PyTuple_GET_ITEM(each, 1);
            room -= PyTuple_GET_SIZE(sessions);
            is_bad = room < 0 ? PyList_Append(rest, each)
                              : deliver_one(calls, PyTuple_GET_ITEM(each, 0),
                                            &PyTuple_GET_ITEM(sessions, 0),
                                            PyTuple_GET_SIZE(sessions),
                                            PyTuple_GET_ITEM(each, 2));
        }
        Py_DECREF(each);
        if (is_bad)
            goto failed;
    }
    if (PyErr_Occurred())
        goto failed;
    Py_DECREF(blobs);
    return rest;
failed:
    Py_XDECREF(blobs);
    Py_XDECREF(rest);
    return NULL;
}

static PyObject *
Pump_get_held(Pump *self, void *unused)
{
    return Py_NewRef(self->held);
}

static int
Pump_set_held(Pump *self, PyObject *held, void *unused)
{
    if (held == NULL || !PyBytes_Check(held)) {
        PyErr_SetString(PyExc_TypeError, "what is held is bytes");
        return -1;
    }
    Py_SETREF(self->held, Py_NewRef(PyBytes_GET_SIZE(held) ? held : nothing));
    return 0;
}

static PyMemberDef Pump_members[] = {
    {"fileno", T_INT, offsetof(Pump, fileno), 0, NULL},
    {"bytes_in", T_LONGLONG, offsetof(Pump, bytes_in), 0, NULL},
    {"bytes_out", T_LONGLONG, offsetof(Pump, bytes_out), 0, NULL},
    {"heard", T_DOUBLE, offsetof(Pump, heard), 0, NULL},
    {"reader", T_OBJECT_EX, offsetof(Pump, reader), 0, NULL},
    {"_is_direct", T_BOOL, offsetof(Pump, is_direct), 0, NULL},
    {"_is_reading", T_BOOL, offsetof(Pump, is_reading), 0, NULL},
    {"_is_writing", T_BOOL, offsetof(Pump, is_writing), 0, NULL},
    {"_is_ending", T_BOOL, offsetof(Pump, is_ending), 0, NULL},
    {"_poller", T_OBJECT_EX, offsetof(Pump, poller), 0, NULL},
    {"_pipe", T_OBJECT_EX, offsetof(Pump, pipe), 0, NULL},
    {"_recv", T_OBJECT_EX, offsetof(Pump, recv), 0, NULL},
    {"_send", T_OBJECT_EX, offsetof(Pump, send), 0, NULL},
    {NULL},
};

static PyGetSetDef Pump_getset[] = {
    {"_held", (getter)Pump_get_held, (setter)Pump_set_held, NULL, NULL},
    {NULL},
};

static PyMethodDef Pump_methods[] = {
    {"write", (PyCFunction)Pump_write, METH_O, "Answers: in line behind what waits already."},
    {"deliver", (PyCFunction)(void (*)(void))Pump_deliver, METH_FASTCALL,
     "Messages, for which the mailbox is charged if the socket does not take them."},
    {"_let_go", (PyCFunction)Pump_let_go, METH_NOARGS, "Send the answers that were held."},
    {"_ready", (PyCFunction)Pump_ready, METH_O, "The poller says what the socket is ready for."},
    {NULL},
};

static PyType_Slot Pump_slots[] = {
    {Py_tp_new, Pump_new},
    {Py_tp_dealloc, Pump_dealloc},
    {Py_tp_traverse, Pump_traverse},
    {Py_tp_clear, Pump_clear},
    {Py_tp_members, Pump_members},
    {Py_tp_getset, Pump_getset},
    {Py_tp_methods, Pump_methods},
    {0, NULL},
};

static PyType_Spec Pump_spec = {
    "headgate.server.net._pump.Pump", sizeof(Pump), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, Pump_slots};

static PyMethodDef methods[] = {
    {"serve", (PyCFunction)(void (*)(void))serve, METH_FASTCALL,
     "Tell connections what they are ready for."},
    {"let_go_all", (PyCFunction)(void (*)(void))let_go_all, METH_FASTCALL,
     "Have pumps send the answers that they hold."},
    {"deliver_all", (PyCFunction)(void (*)(void))deliver_all, METH_FASTCALL,
     "Hand blobs to all who get them; return those for which there was no room."},
    {NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_pump", NULL, -1, methods};

static const BlobsPort *
found_port(void)
{
    PyObject *passes = PyImport_ImportModule("headgate.core.channels._passes");
    PyObject *port = passes == NULL ? NULL : PyObject_GetAttrString(passes, "blobs_port");
    Py_XDECREF(passes);
    return port == NULL ? NULL : PyCapsule_GetPointer(port, BLOBS_PORT); /* it lives as long */
}

PyMODINIT_FUNC
PyInit__pump(void)
{
    const struct {
        PyObject **at;
        const char *name;
    } names[] = {
        {&_by_pipe_deliver, "_deliver_by_pipe"}, {&_by_pipe_ready, "_ready_by_pipe"},
        {&_answering, "answering"},  {&_broken, "_broken"},        {&_failed, "_failed"},
        {&_fell_short, "_fell_short"}, {&_hung_up, "_hung_up"},    {&_is_serving, "is_serving"},
        {&_keep, "_keep"},           {&_receive, "receive"},
        {&_unreadable, "_unreadable"}, {&_unusual, "_unusual"},
    };
    for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++)
        if ((*names[at].at = PyUnicode_InternFromString(names[at].name)) == NULL)
            return NULL;
    blobs_port = found_port();
    if (blobs_port == NULL)
        return NULL;
    nothing = PyBytes_FromStringAndSize(NULL, 0);
    answer = PyLong_FromLong(0);
    PyObject *made = PyModule_Create(&module);
    PyObject *type = PyType_FromSpec(&Pump_spec);
    if (nothing == NULL || answer == NULL || made == NULL || type == NULL
        || PyModule_AddObjectRef(made, "Pump", type) < 0
        || PyModule_AddStringConstant(made, "SOURCE", HEADGATE_SOURCE) < 0)
        Py_CLEAR(made);
    Pump_Type = (PyTypeObject *)type;
    return made;
}
