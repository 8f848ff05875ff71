/* What most clients send most of the time, compiled: PUBLISHes, and PINGs between them, from the read
 * to the pass that is open, without an object for any of them. It is a short way for
 * `PurePlainSession.receive` in plain.py, which says what a session does with a read, and which is
 * called with all that is not plain: from there on the read goes its usual way.
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
#define PING "*1\r\n$4\r\nPING\r\n"
#define PONG "+PONG\r\n"

/* What sessions share. */
typedef struct {
    PyObject_HEAD
    PyObject *channels, *left, *monitors, *cluster, *elsewhere, *feeds, *stuck;
    char names_fit, is_flushing;
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
static PyObject *_by_steps, *_error, *_flush_soon, *_harmless_bytes, *_is_trusted, *_is_unrestricted,
    *_is_used, *_look_at_answers, *_take, *_unread, *_write;

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
make_room(Answers *answers)
{
    if (answers->room - answers->size >= ANSWER_BYTES)
        return 0;
    Py_ssize_t room = answers->room * 4;
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
    if (make_room(answers) < 0)
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
answer_pong(Answers *answers)
{
    if (make_room(answers) < 0)
        return -1;
    memcpy(answers->at + answers->size, PONG, sizeof(PONG) - 1);
    answers->size += sizeof(PONG) - 1;
    return 0;
}

static int
call(PyObject *object, PyObject *name)
{
    PyObject *done = PyObject_CallMethodNoArgs(object, name);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Write the answers, behind what they were published for. */
static int
write_answers(PlainSession *self, PlainHub *hub, Answers *answers)
{
    if (channels_port->is_unwritten(hub->channels) && !hub->is_flushing
        && call((PyObject *)hub, _flush_soon) < 0)
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

/* Carry out what is plain at the start of a read; return how many bytes that was, or -1. The hub
 * and its channels are held. */
static Py_ssize_t
carry_out(PlainSession *self, PlainHub *hub, const char *first, const char *end, Answers *answers)
{
    Publishing messages[MESSAGES];
    const char *ends[MESSAGES];
    long long receivers[MESSAGES];
    const char *at = first;
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
        } else if (at > first && end - at >= (Py_ssize_t)sizeof(PING) - 1 && is_nothing(hub->elsewhere)
                   && !memcmp(at, PING, sizeof(PING) - 1)) {
            if (answer_pong(answers) < 0)
                return -1;
            at += sizeof(PING) - 1;
            hub->commands++;
            Py_XSETREF(self->last_command, Py_NewRef(ping));
        } else
            break;
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
    {"names_fit", T_BOOL, offsetof(PlainHub, names_fit), 0, NULL},
    {"is_flushing", T_BOOL, offsetof(PlainHub, is_flushing), 0, NULL},
    {"commands", T_LONGLONG, offsetof(PlainHub, commands), 0, NULL},
    {NULL},
};
static PyType_Slot hub_slots[] = {
    {Py_tp_doc, "What plain sessions ask of the hub."},
    {Py_tp_new, plain_new},
    {Py_tp_dealloc, PlainHub_dealloc},
    {Py_tp_traverse, PlainHub_traverse},
    {Py_tp_clear, PlainHub_clear},
    {Py_tp_members, hub_members},
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

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_plain", NULL, -1, NULL};

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
        {&_by_steps, "_receive_by_steps"}, {&_error, "error"}, {&_flush_soon, "flush_soon"},
        {&_harmless_bytes, "harmless_bytes"}, {&_is_trusted, "is_trusted"},
        {&_is_unrestricted, "is_unrestricted"}, {&_is_used, "is_used"},
        {&_look_at_answers, "look_at_answers"}, {&_take, "_take"}, {&_unread, "unread"},
        {&_write, "write"}, {&ping, "ping"},
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
