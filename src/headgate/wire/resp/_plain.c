/* What most clients send most of the time, compiled: PUBLISHes and PINGs, from the read to the pass that
 * is open, without an object for any of them, and some commands between them, with one call for each
 * (`commands/at_once.py`). It is a short way for
 * `PurePlainSession.receive` in plain.py, which says what a session does with a read, and which is
 * called with all that is not plain: from there on the read goes its usual way. The end of a pass of the
 * loop is here, too, as `PurePlainHub._flush_some` has it.
 *
 * A read is plain while nothing is in the way of it: the client said who it is and may do everything,
 * hears nothing itself, and has no answers, transaction or request under way; nobody is stuck, and
 * nobody watches. There is no I/O here. The lock of the interpreter is held throughout.
 */

#include "../../core/channels/_passes.h"
#include "codec/_requests.h"
#include <structmember.h>

#define MESSAGES 32 /* that are published with one call */
#define ANSWER_BYTES 24 /* the longest */
#define FEW_ANSWERS 1024 /* bytes of answers that need no room of their own */
#define TAKEN_MOST 8 /* times in a read that other commands come between */
#define SHORT_MOST 32 /* commands of a read besides PUBLISHes that take no step */
#define SHORT_WORDS 3 /* the most that one of them has */
#define PING "*1\r\n$4\r\nPING\r\n"
#define PONG "+PONG\r\n"

/* What sessions share. */
typedef struct {
    PyObject_HEAD
    PyObject *channels, *left, *monitors, *cluster, *elsewhere, *feeds, *stuck, *at_once, *shell,
        *deliver;
    char names_fit, is_flushing;
    Py_ssize_t flushed_most;
    long long commands;
} PlainHub;

typedef struct {
    PyObject_HEAD
    PyObject *hub, *id, *outlet, *requests, *awaited, *user, *queued, *answers, *last_command,
        *pending;
    long long held;
    char is_closing;
} PlainSession;

/* Answers that are not written yet. */
typedef struct {
    char *at;
    Py_ssize_t size, room;
    char few[FEW_ANSWERS];
} Answers;

static PyTypeObject *PlainHub_Type;
static const ChannelsPort *channels_port;
static PyObject *on, *ping; /* the usual mode of answers; a command's name */
static PyObject *_by_steps, *_deliver_all, *_error, *_flush_some, *_harmless_bytes, *_hear_here,
    *_is_trusted, *_is_unrestricted, *_is_used, *_look_at_answers, *_soon, *_take,
    *_take_blobs, *_unread, *_write, *_write_later;

/* Whether an attribute is true: 1, 0, or -1. */
static int
is_true(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(object, name);
    int answer = found == NULL ? -1 : PyObject_IsTrue(found);
    Py_XDECREF(found);
    return answer;
}

static int
is_none(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(object, name);
    int answer = found == NULL ? -1 : found == Py_None;
    Py_XDECREF(found);
    return answer;
}

/* Whether no request in so many bytes can be over a limit. */
static int
is_harmless(PyObject *requests, Py_ssize_t size)
{
    PyObject *most = PyObject_GetAttr(requests, _harmless_bytes);
    if (most == NULL)
        return -1;
    Py_ssize_t bytes = PyLong_AsSsize_t(most);
    Py_DECREF(most);
    return bytes == -1 && PyErr_Occurred() ? -1 : size <= bytes;
}

static inline int
is_nothing(PyObject *object)
{
    return object == NULL || object == Py_None;
}

static inline int
is_empty_dict(PyObject *object)
{
    return object != NULL && PyDict_Check(object) && !PyDict_GET_SIZE(object);
}

/* Whether nothing is in the way of a read of so many bytes: 1, 0, or -1. */
static int
is_plain(PlainSession *self, PlainHub *hub, Py_ssize_t size)
{
    if (self->held || self->is_closing || !is_nothing(self->awaited) || is_nothing(self->user)
        || !is_nothing(self->queued) || self->answers != on || self->id == NULL
        || self->outlet == NULL || self->requests == NULL)
        return 0;
    if (!hub->names_fit || !is_nothing(hub->cluster) || !is_empty_dict(hub->monitors)
        || !is_empty_dict(hub->stuck) || hub->left == NULL || hub->feeds == NULL
        || hub->channels == NULL || !PyObject_TypeCheck(hub->channels, channels_port->type))
        return 0;
    Py_ssize_t left = PyObject_Size(hub->left);
    if (left)
        return left < 0 ? -1 : 0;
    int answer;
    if ((answer = is_true(self->user, _is_unrestricted)) <= 0
        || (answer = channels_port->is_plain(hub->channels, self->id)) <= 0
        || (answer = is_none(self->requests, _unread)) <= 0
        || (answer = is_none(self->requests, _error)) <= 0
        || (answer = is_true(self->requests, _is_trusted)) <= 0
        || (answer = is_harmless(self->requests, size)) <= 0)
        return answer;
    return 1;
}

/* Answers. */

static int
make_room(Answers *answers, Py_ssize_t size)
{
    if (answers->room - answers->size >= size)
        return 0;
    Py_ssize_t room = answers->room * 4;
    while (room - answers->size < size)
        room *= 2;
    char *more = PyMem_Malloc((size_t)room);
    if (more == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(more, answers->at, (size_t)answers->size);
    if (answers->at != answers->few)
        PyMem_Free(answers->at);
    answers->at = more;
    answers->room = room;
    return 0;
}

static int
answer_integer(Answers *answers, long long number)
{
    char digits[ANSWER_BYTES];
    int at = ANSWER_BYTES;
    unsigned long long left = number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;
    if (make_room(answers, ANSWER_BYTES) < 0)
        return -1;
    digits[--at] = '\n';
    digits[--at] = '\r';
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (number < 0)
        digits[--at] = '-';
    digits[--at] = ':';
    memcpy(answers->at + answers->size, digits + at, (size_t)(ANSWER_BYTES - at));
    answers->size += ANSWER_BYTES - at;
    return 0;
}

static int
answer_bytes(Answers *answers, const char *at, Py_ssize_t size)
{
    if (make_room(answers, size) < 0)
        return -1;
    memcpy(answers->at + answers->size, at, (size_t)size);
    answers->size += size;
    return 0;
}

static int
call(PyObject *object, PyObject *name)
{
    PyObject *done = PyObject_CallMethodNoArgs(object, name);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The end of a pass. */

static int
hub_flush_soon(PlainHub *hub)
{
    if (hub->is_flushing)
        return 0;
    PyObject *shell = Py_XNewRef(hub->shell), *done = NULL;
    PyObject *flush = PyObject_GetAttr((PyObject *)hub, _flush_some);
    if (shell == NULL)
        PyErr_SetString(PyExc_AttributeError, "shell");
    else if (flush != NULL) {
        hub->is_flushing = 1;
        done = PyObject_CallMethodOneArg(shell, _soon, flush);
    }
    Py_XDECREF(flush);
    Py_XDECREF(shell);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *
PlainHub_flush_soon(PlainHub *self, PyObject *unused)
{
    return hub_flush_soon(self) < 0 ? NULL : Py_NewRef(Py_None);
}

/* Have the shell deliver blobs; return those for which there was no room. */
static PyObject *
delivered(PlainHub *self, PyObject *blobs)
{
    PyObject *shell = Py_XNewRef(self->shell), *deliver = Py_XNewRef(self->deliver), *rest = NULL;
    PyObject *most = PyLong_FromSsize_t(self->flushed_most);
    if (shell == NULL || deliver == NULL)
        PyErr_SetString(PyExc_AttributeError, "a hub delivers by its shell");
    else if (most != NULL) {
        PyObject *given[] = {shell, blobs, deliver, most};
        rest = PyObject_VectorcallMethod(_deliver_all, given, 4, NULL);
    }
    Py_XDECREF(most);
    Py_XDECREF(deliver);
    Py_XDECREF(shell);
    return rest;
}

static PyObject *
PlainHub_flush_some(PlainHub *self, PyObject *unused)
{
    self->is_flushing = 0;
    if (self->channels == NULL || self->left == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a hub has channels, and what is left");
        return NULL;
    }
    PyObject *channels = Py_NewRef(self->channels), *left = Py_NewRef(self->left), *done = NULL;
    PyObject *rest = PyObject_CallMethodNoArgs(channels, _take_blobs);
    Py_ssize_t before = rest == NULL ? -1 : PyObject_Size(left), after = before, size = -1;
    if (!before) {
        Py_SETREF(rest, delivered(self, rest));
        size = rest == NULL ? -1 : PyObject_Size(rest);
        after = size < 0 ? -1 : PyObject_Size(left);
    }
    if (!size && !after)
        done = Py_NewRef(Py_None); /* all of it is written */
    else if (after >= 0)
        done = PyObject_CallMethodOneArg((PyObject *)self, _write_later, rest);
    Py_XDECREF(rest);
    Py_DECREF(left);
    Py_DECREF(channels);
    return done;
}

/* Write the answers, behind what they were published for. */
static int
write_answers(PlainSession *self, PlainHub *hub, Answers *answers)
{
    if (channels_port->is_unwritten(hub->channels) && hub_flush_soon(hub) < 0)
        return -1;
    PyObject *blob = PyBytes_FromStringAndSize(answers->at, answers->size);
    if (blob == NULL)
        return -1;
    PyObject *outlet = Py_NewRef(self->outlet);
    PyObject *written = PyObject_CallMethodOneArg(outlet, _write, blob);
    Py_DECREF(outlet);
    Py_DECREF(blob);
    if (written == NULL)
        return -1;
    Py_DECREF(written);
    return is_empty_dict(hub->stuck) ? 0 : call((PyObject *)hub, _look_at_answers);
}

/* Carry out a command that needs one call, if there is one; return how many bytes that was, or -1. */
static Py_ssize_t
short_taken(PlainSession *self, PlainHub *hub, const char *at, const char *end, Answers *answers)
{
    Py_ssize_t count, size = 0;
    const char *next = *at == '*' ? read_number(at + 1, end, &count) : NULL;
    if (next == NULL || !count || count > SHORT_WORDS || hub->at_once == NULL
        || !PyDict_Check(hub->at_once))
        return 0;
    PyObject *command = read_request(&next, end, count), *answer = NULL;
    if (command != NULL) {
        PyObject *name = PyList_GET_ITEM(command, 0);
        PyObject *call = Py_XNewRef(PyDict_GetItemWithError(hub->at_once, name));
        PyObject *given[] = {(PyObject *)self, command};
        if (call != NULL)
            answer = PyObject_Vectorcall(call, given, 2, NULL);
        Py_XDECREF(call);
        Py_DECREF(command);
    }
    if (answer == NULL)
        return PyErr_Occurred() ? -1 : 0;
    if (PyBytes_Check(answer)) {
        size = next - at;
        hub->commands++;
        if (answer_bytes(answers, PyBytes_AS_STRING(answer), PyBytes_GET_SIZE(answer)) < 0)
            size = -1;
    }
    Py_DECREF(answer);
    return size;
}

/* How many messages, from the first on, are on channels that are known to feed no domain; -1 with an
 * error. Messages in a row on one channel need one look. */
static Py_ssize_t
unfed_among(PlainHub *hub, const Publishing *messages, Py_ssize_t count)
{
    int is_used = is_true(hub->feeds, _is_used);
    if (is_used <= 0)
        return is_used < 0 ? -1 : count;
    PyObject *unfed = PyObject_GetAttrString(hub->feeds, "unfed");
    int is_unfed = unfed == NULL ? -1 : 1;
    Py_ssize_t found = 0;
    for (; is_unfed > 0 && found < count; found += is_unfed > 0) {
        const Span *channel = &messages[found].channel;
        const Span *before = found ? &messages[found - 1].channel : NULL;
        if (before != NULL && channel->size == before->size
            && !memcmp(channel->at, before->at, (size_t)channel->size))
            continue;
        PyObject *name = PyBytes_FromStringAndSize(channel->at, channel->size);
        is_unfed = name == NULL ? -1 : PySet_Contains(unfed, name);
        Py_XDECREF(name);
    }
    Py_XDECREF(unfed);
    return is_unfed < 0 ? -1 : found;
}

/* Carry out what is plain in a part of a read; return how many bytes that was, or -1. The hub and its
 * channels are held. */
static Py_ssize_t
carry_out(PlainSession *self, PlainHub *hub, const char *first, const char *end, Answers *answers)
{
    Publishing messages[MESSAGES];
    const char *ends[MESSAGES];
    long long receivers[MESSAGES];
    const char *at = first;
    int calls = 0;
    while (at < end) {
        Py_ssize_t count = 0;
        const char *next = at;
        while (count < MESSAGES) {
            Publishing *one = messages + count;
            next = read_publish(next, end, &one->channel.at, &one->channel.size, &one->body.at,
                                &one->body.size);
            if (next == NULL)
                break;
            ends[count++] = next;
        }
        if (count && (count = unfed_among(hub, messages, count)) < 0)
            return -1;
        if (count) {
            Py_ssize_t done = channels_port->publish(hub->channels, messages, count, receivers);
            if (done < 0)
                return -1;
            for (Py_ssize_t each = 0; each < done; each++)
                if (answer_integer(answers, receivers[each]) < 0)
                    return -1;
            hub->commands += done;
            if (done)
                at = ends[done - 1];
            if (done < count)
                break; /* nobody knows who hears the next one */
        } else if (!is_nothing(hub->elsewhere) || calls++ == SHORT_MOST) {
            break;
        } else if (end - at >= (Py_ssize_t)sizeof(PING) - 1 && !memcmp(at, PING, sizeof(PING) - 1)) {
            if (answer_bytes(answers, PONG, sizeof(PONG) - 1) < 0)
                return -1;
            at += sizeof(PING) - 1;
            hub->commands++;
            Py_XSETREF(self->last_command, Py_NewRef(ping));
        } else {
            Py_ssize_t taken = short_taken(self, hub, at, end, answers);
            if (taken < 0)
                return -1;
            at += taken;
            /* Keys that expired may have been told to somebody, and anything may follow from it. */
            int may = taken ? is_plain(self, hub, end - first) : 0;
            if (may < 0)
                return -1;
            if (!may)
                break;
        }
    }
    return at - first;
}

/* Carry out what is plain, from some place in a read on, and write the answers; return where that
 * ended, or -1. */
static Py_ssize_t
carried_out(PlainSession *self, PlainHub *hub, PyObject *data, Py_ssize_t start)
{
    Answers answers;
    answers.at = answers.few;
    answers.size = 0;
    answers.room = FEW_ANSWERS;
    const char *first = PyBytes_AS_STRING(data);
    PyObject *channels = Py_NewRef(hub->channels);
    Py_ssize_t done = carry_out(self, hub, first + start, first + PyBytes_GET_SIZE(data), &answers);
    Py_DECREF(channels);
    if (done > 0 && write_answers(self, hub, &answers) < 0)
        done = -1;
    if (answers.at != answers.few)
        PyMem_Free(answers.at);
    return done < 0 ? -1 : start + done;
}

/* Whether a command may take a turn, as `RespSession._may_follow` has it: those wait together. Of
 * PUBLISHes these are others than are read here. */
static int
is_turn(PlainHub *hub, PyObject *command)
{
    PyObject *name = PyList_GET_ITEM(command, 0);
    Py_ssize_t size = PyBytes_GET_SIZE(name);
    const char *at = PyBytes_AS_STRING(name);
    if (!size || (*at | 0x20) == 'x')
        return 1;
    return (size == 7 || size == 8) && !PyOS_strnicmp(at + size - 7, "publish", 7)
        && is_true(hub->feeds, _is_used);
}

/* Have the session carry out what comes between PUBLISHes; return where that ended. The same place if
 * it is not plain or not whole; -1 if there was an error, -2 if the rest was taken as well. */
static Py_ssize_t
others_taken(PlainSession *self, PlainHub *hub, PyObject *data, Py_ssize_t start)
{
    const char *first = PyBytes_AS_STRING(data), *end = first + PyBytes_GET_SIZE(data);
    const char *at = first + start;
    PyObject *commands = PyList_New(0);
    if (commands == NULL)
        return -1;
    while (at < end && *at == '*' && !is_publish(at, end)) {
        Py_ssize_t count;
        const char *next = read_number(at + 1, end, &count);
        if (next == NULL)
            break;
        if (count) { /* RESP-2: a request of nothing has no answer */
            PyObject *command = read_request(&next, end, count);
            int is_other = command != NULL && !is_turn(hub, command);
            int failed = is_other ? PyList_Append(commands, command) : 0;
            Py_XDECREF(command);
            if (failed || PyErr_Occurred()) {
                Py_DECREF(commands);
                return -1;
            }
            if (!is_other)
                break;
        }
        at = next;
    }
    Py_ssize_t reached = at - first;
    if (PyList_GET_SIZE(commands)) {
        PyObject *to = PyLong_FromSsize_t(reached), *done = NULL;
        if (to != NULL) {
            PyObject *given[] = {(PyObject *)self, commands, data, to};
            done = PyObject_VectorcallMethod(_take, given, 4, NULL);
            Py_DECREF(to);
        }
        if (done == NULL)
            reached = -1;
        else if (done != Py_True)
            reached = -2;
        Py_XDECREF(done);
    }
    Py_DECREF(commands);
    return reached;
}

/* What is plain of a read; return where that ends, -1 with an error, or -2 if nothing is left. */
static Py_ssize_t
receive_plain(PlainSession *self, PlainHub *hub, PyObject *data)
{
    Py_ssize_t size = PyBytes_GET_SIZE(data), at = 0;
    int taken = 0, may = 1;
    while (at < size && (may = is_plain(self, hub, size)) > 0) {
        if ((at = carried_out(self, hub, data, at)) < 0 || at == size || taken++ == TAKEN_MOST)
            break;
        Py_ssize_t before = at;
        if ((at = others_taken(self, hub, data, at)) <= before)
            break;
    }
    return may < 0 ? -1 : at;
}

static PyObject *
PlainSession_receive(PlainSession *self, PyObject *data)
{
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "what a client sent is bytes");
        return NULL;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(data), at = 0;
    PyObject *hub = self->hub;
    if (size && *PyBytes_AS_STRING(data) == '*' && hub != NULL
        && PyObject_TypeCheck(hub, PlainHub_Type)) {
        Py_INCREF(hub);
        at = receive_plain(self, (PlainHub *)hub, data);
        Py_DECREF(hub);
    }
    if (at == -1)
        return NULL;
    if (at == -2 || (at && at == size))
        Py_RETURN_NONE;
    if (!at)
        return PyObject_CallMethodOneArg((PyObject *)self, _by_steps, data);
    PyObject *rest = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + at, size - at);
    if (rest == NULL)
        return NULL;
    PyObject *done = PyObject_CallMethodOneArg((PyObject *)self, _by_steps, rest);
    Py_DECREF(rest);
    return done;
}

/* What other workers published. */

/* Find out who hears a channel here. */
static int
hear(PyObject *channels, Span channel)
{
    PyObject *name = PyBytes_FromStringAndSize(channel.at, channel.size);
    PyObject *heard = name == NULL ? NULL : PyObject_CallMethodOneArg(channels, _hear_here, name);
    Py_XDECREF(name);
    Py_XDECREF(heard);
    return heard == NULL ? -1 : 0;
}

/* Deliver what is published at the start of the data of a link; return where that ends, or NULL. */
static const char *
deliver_from(PyObject *channels, const char *at, const char *end)
{
    Publishing messages[MESSAGES];
    const char *ends[MESSAGES];
    while (at < end) {
        Py_ssize_t count = 0;
        const char *next = at;
        while (count < MESSAGES) {
            Publishing *one = messages + count;
            next = read_publish(next, end, &one->channel.at, &one->channel.size, &one->body.at,
                                &one->body.size);
            if (next == NULL)
                break;
            ends[count++] = next;
        }
        if (!count)
            break;
        Py_ssize_t done = channels_port->deliver(channels, messages, count);
        if (!done) {
            if (hear(channels, messages[0].channel) < 0)
                return NULL;
            done = channels_port->deliver(channels, messages, count);
        }
        if (done < 0)
            return NULL;
        if (!done)
            break;
        at = ends[done - 1];
    }
    return at;
}

/* Whether the data end within a number and its line end. */
static int
is_number_cut(const char *at, const char *end)
{
    const char *first = at;
    while (at < end && at - first < SIZE_DIGITS_MOST && *at >= '0' && *at <= '9')
        at++;
    return at == end || (at > first && end - at == 1 && *at == '\r');
}

/* Whether an argument is plain so far and not whole; else it is moved behind it, if it is plain. */
static int
is_argument_cut(const char **at, const char *end)
{
    Py_ssize_t size;
    const char *start = read_number(*at, end, &size);
    if (start == NULL)
        return is_number_cut(*at, end);
    if (end - start < size + 2)
        return 1;
    *at = start + size + 2;
    return 0;
}

/* Whether the data end with a PUBLISH that is plain so far and not whole. */
static int
is_cut(const char *at, const char *end)
{
    if (end - at <= PUBLISH_BYTES)
        return !memcmp(at, PUBLISH_UPPER, (size_t)(end - at));
    if (!is_publish(at, end))
        return 0;
    const char *name = at += PUBLISH_BYTES;
    if (is_argument_cut(&at, end))
        return end - name <= NAME_BYTES;
    if (at == name) /* it is not plain */
        return 0;
    return at == end || (*at++ == '$' && is_argument_cut(&at, end));
}

static PyObject *
deliver_run(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyObject_TypeCheck(args[0], channels_port->type) || !PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "deliver_run() takes channels and the data of a link");
        return NULL;
    }
    const char *first = PyBytes_AS_STRING(args[1]), *end = first + PyBytes_GET_SIZE(args[1]);
    const char *at = deliver_from(args[0], first, end);
    if (at == NULL)
        return NULL;
    return Py_BuildValue("(nN)", (Py_ssize_t)(at - first),
                         PyBool_FromLong(at < end && is_cut(at, end)));
}

/* Types. */

static PyObject *
plain_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return type->tp_alloc(type, 0); /* a subclass takes the arguments */
}

static int
PlainHub_traverse(PlainHub *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->channels);
    Py_VISIT(self->left);
    Py_VISIT(self->monitors);
    Py_VISIT(self->cluster);
    Py_VISIT(self->elsewhere);
    Py_VISIT(self->feeds);
    Py_VISIT(self->stuck);
    Py_VISIT(self->at_once);
    Py_VISIT(self->shell);
    Py_VISIT(self->deliver);
    return 0;
}

static int
PlainHub_clear(PlainHub *self)
{
    Py_CLEAR(self->channels);
    Py_CLEAR(self->left);
    Py_CLEAR(self->monitors);
    Py_CLEAR(self->cluster);
    Py_CLEAR(self->elsewhere);
    Py_CLEAR(self->feeds);
    Py_CLEAR(self->stuck);
    Py_CLEAR(self->at_once);
    Py_CLEAR(self->shell);
    Py_CLEAR(self->deliver);
    return 0;
}

static void
PlainHub_dealloc(PlainHub *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    PlainHub_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static int
PlainSession_traverse(PlainSession *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->hub);
    Py_VISIT(self->id);
    Py_VISIT(self->outlet);
    Py_VISIT(self->requests);
    Py_VISIT(self->awaited);
    Py_VISIT(self->user);
    Py_VISIT(self->queued);
    Py_VISIT(self->answers);
    Py_VISIT(self->last_command);
    Py_VISIT(self->pending);
    return 0;
}

static int
PlainSession_clear(PlainSession *self)
{
    Py_CLEAR(self->hub);
    Py_CLEAR(self->id);
    Py_CLEAR(self->outlet);
    Py_CLEAR(self->requests);
    Py_CLEAR(self->awaited);
    Py_CLEAR(self->user);
    Py_CLEAR(self->queued);
    Py_CLEAR(self->answers);
    Py_CLEAR(self->last_command);
    Py_CLEAR(self->pending);
    return 0;
}

static void
PlainSession_dealloc(PlainSession *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    PlainSession_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMemberDef hub_members[] = {
    {"channels", T_OBJECT_EX, offsetof(PlainHub, channels), 0, NULL},
    {"left", T_OBJECT_EX, offsetof(PlainHub, left), 0, NULL},
    {"monitors", T_OBJECT_EX, offsetof(PlainHub, monitors), 0, NULL},
    {"cluster", T_OBJECT_EX, offsetof(PlainHub, cluster), 0, NULL},
    {"elsewhere", T_OBJECT_EX, offsetof(PlainHub, elsewhere), 0, NULL},
    {"feeds", T_OBJECT_EX, offsetof(PlainHub, feeds), 0, NULL},
    {"stuck", T_OBJECT_EX, offsetof(PlainHub, stuck), 0, NULL},
    {"at_once", T_OBJECT_EX, offsetof(PlainHub, at_once), 0, NULL},
    {"shell", T_OBJECT_EX, offsetof(PlainHub, shell), 0, NULL},
    {"_deliver", T_OBJECT_EX, offsetof(PlainHub, deliver), 0, NULL},
    {"flushed_most", T_PYSSIZET, offsetof(PlainHub, flushed_most), 0, NULL},
    {"names_fit", T_BOOL, offsetof(PlainHub, names_fit), 0, NULL},
    {"is_flushing", T_BOOL, offsetof(PlainHub, is_flushing), 0, NULL},
    {"commands", T_LONGLONG, offsetof(PlainHub, commands), 0, NULL},
    {NULL},
};
static PyMethodDef hub_methods[] = {
    {"flush_soon", (PyCFunction)PlainHub_flush_soon, METH_NOARGS,
     "Have what was published written at the end of this pass."},
    {"_flush_some", (PyCFunction)PlainHub_flush_some, METH_NOARGS,
     "Write what was published, as much of it as is written in a row."},
    {NULL},
};
static PyType_Slot hub_slots[] = {
    {Py_tp_doc, "What plain sessions ask of the hub."},
    {Py_tp_new, plain_new},
    {Py_tp_dealloc, PlainHub_dealloc},
    {Py_tp_traverse, PlainHub_traverse},
    {Py_tp_clear, PlainHub_clear},
    {Py_tp_members, hub_members},
    {Py_tp_methods, hub_methods},
    {0, NULL},
};
static PyType_Spec hub_spec = {"headgate.wire.resp._plain.PlainHub", sizeof(PlainHub), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
                               hub_slots};

static PyMemberDef session_members[] = {
    {"hub", T_OBJECT_EX, offsetof(PlainSession, hub), 0, NULL},
    {"id", T_OBJECT_EX, offsetof(PlainSession, id), 0, NULL},
    {"outlet", T_OBJECT_EX, offsetof(PlainSession, outlet), 0, NULL},
    {"requests", T_OBJECT_EX, offsetof(PlainSession, requests), 0, NULL},
    {"awaited", T_OBJECT_EX, offsetof(PlainSession, awaited), 0, NULL},
    {"user", T_OBJECT_EX, offsetof(PlainSession, user), 0, NULL},
    {"queued", T_OBJECT_EX, offsetof(PlainSession, queued), 0, NULL},
    {"answers", T_OBJECT_EX, offsetof(PlainSession, answers), 0, NULL},
    {"last_command", T_OBJECT_EX, offsetof(PlainSession, last_command), 0, NULL},
    {"pending", T_OBJECT_EX, offsetof(PlainSession, pending), 0, NULL},
    {"held", T_LONGLONG, offsetof(PlainSession, held), 0, NULL},
    {"is_closing", T_BOOL, offsetof(PlainSession, is_closing), 0, NULL},
    {NULL},
};
static PyMethodDef session_methods[] = {
    {"receive", (PyCFunction)PlainSession_receive, METH_O, "Carry out what the client sent."},
    {NULL},
};
static PyType_Slot session_slots[] = {
    {Py_tp_doc, "A session that does what is plain."},
    {Py_tp_new, plain_new},
    {Py_tp_dealloc, PlainSession_dealloc},
    {Py_tp_traverse, PlainSession_traverse},
    {Py_tp_clear, PlainSession_clear},
    {Py_tp_members, session_members},
    {Py_tp_methods, session_methods},
    {0, NULL},
};
static PyType_Spec session_spec = {
    "headgate.wire.resp._plain.PlainSession", sizeof(PlainSession), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, session_slots};

static PyMethodDef methods[] = {
    {"deliver_run", (PyCFunction)(void (*)(void))deliver_run, METH_FASTCALL,
     "Deliver what another worker published; return where it ends, and whether the next is cut."},
    {NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_plain", NULL, -1, methods};

/* The mode in which every command is answered. */
static PyObject *
usual_mode(void)
{
    PyObject *found = PyImport_ImportModule("headgate.wire.resp.reply_mode");
    PyObject *modes = found == NULL ? NULL : PyObject_GetAttrString(found, "ReplyMode");
    PyObject *mode = modes == NULL ? NULL : PyObject_GetAttrString(modes, "ON");
    Py_XDECREF(modes);
    Py_XDECREF(found);
    return mode;
}

PyMODINIT_FUNC
PyInit__plain(void)
{
    const struct {
        PyObject **at;
        const char *name;
    } names[] = {
        {&_by_steps, "_receive_by_steps"}, {&_deliver_all, "deliver_all"}, {&_error, "error"},
        {&_flush_some, "_flush_some"}, {&_harmless_bytes, "harmless_bytes"},
        {&_hear_here, "_hear_here"}, {&_is_trusted, "is_trusted"},
        {&_is_unrestricted, "is_unrestricted"}, {&_is_used, "is_used"},
        {&_look_at_answers, "look_at_answers"}, {&_soon, "soon"}, {&_take, "_take"},
        {&_take_blobs, "take"}, {&_unread, "unread"}, {&_write, "write"},
        {&_write_later, "_write_later"}, {&ping, "ping"},
    };
    for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++)
        if ((*names[at].at = PyUnicode_InternFromString(names[at].name)) == NULL)
            return NULL;
    PyObject *passes = PyImport_ImportModule("headgate.core.channels._passes");
    PyObject *port = passes == NULL ? NULL : PyObject_GetAttrString(passes, "channels_port");
    Py_XDECREF(passes);
    channels_port = port == NULL ? NULL : PyCapsule_GetPointer(port, CHANNELS_PORT);
    on = channels_port == NULL ? NULL : usual_mode();
    if (on == NULL) {
        Py_XDECREF(port);
        return NULL;
    }
    PyObject *made = PyModule_Create(&module);
    PyObject *hub = PyType_FromSpec(&hub_spec), *session = PyType_FromSpec(&session_spec);
    if (made == NULL || hub == NULL || session == NULL
        || PyModule_AddObjectRef(made, "PlainHub", hub) < 0
        || PyModule_AddObjectRef(made, "PlainSession", session) < 0
        || PyModule_AddStringConstant(made, "SOURCE", HEADGATE_SOURCE) < 0)
        Py_CLEAR(made);
    Py_XDECREF(session);
    PlainHub_Type = (PyTypeObject *)hub;
    return made;
}
