/* What is published between two times that it is written, compiled: the twins of `Heard` and
 * `FrameGroup` in audience.py and of `Pass` and `OpenPass` in publish_pass.py, which say what each of
 * them is. They make the same blobs of the same messages in the same order; tests compare every one
 * of them.
 *
 * Nothing here does I/O, and nothing is kept but references to Python's objects. The lock of the
 * interpreter is held throughout. A framing without parts is a function of Python: it is called, so
 * what is used after such a call is held meanwhile.
 *
 * A cycle of references can only go through such a function, and through something of Python's that
 * can be cleared: so those types that blobs at work depend upon are visited, and never cleared.
 */

#include "_passes.h"
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#define LINE_KEPT 256 /* frames for which a line keeps its room from pass to pass */
#define DIGITS_MOST 20

/* Where the frames of one session are put together. */
typedef struct {
    PyObject_HEAD
    PyObject **frames; /* bytes, each held */
    Py_ssize_t count, room, size;
    long long messages;
    uint64_t seen_in; /* the last look at all groups of a pass in which it was met */
    PyObject *sessions; /* of the group in which it was met then; only compared during that look */
    Py_ssize_t share; /* and the number of the blob that all of these share */
} Line;

typedef struct {
    PyObject_HEAD
    PyObject *lead, *tail; /* a function of a size; bytes */
    PyObject *head, *mark; /* bytes around the size that are all of a lead; or both nothing */
    PyObject *sessions; /* a tuple */
    PyObject *lines; /* a tuple of their lines once these were needed; or nothing */
    long long heard_in;
    uint64_t logged_by; /* the pass that holds it; numbers of passes are the caller's, and may repeat */
    Py_ssize_t share; /* the number of the blob that it goes into, while blobs are shared */
} FrameGroup;

typedef struct {
    PyObject_HEAD
    long long moment, published, size, receivers;
    PyObject *frame_groups; /* a tuple */
    char is_apart; /* nobody is told a message in two forms */
} Heard;

typedef struct {
    FrameGroup *group; /* held by the list of groups */
    PyObject *frames; /* bytes, held */
    Py_ssize_t count;
} Logged;

typedef struct {
    PyObject_HEAD
    long long number;
    uint64_t serial; /* no other pass has it */
    Py_ssize_t frames_most, bytes_most;
    Py_ssize_t frames, bytes;
    FrameGroup **groups; /* held */
    Py_ssize_t group_count, group_room;
    Logged *log;
    Py_ssize_t log_count, log_room;
} Pass;

typedef struct {
    PyObject_HEAD
    long long moment;
    PyObject *pass, *exact, *exact_here, *by_session, *tap; /* a Pass; dicts; or nothing */
    PyObject *passes; /* a list of those that are over */
    char is_unwritten;
} OpenPass;

enum { NEW, BEGUN, ALONE, SHARED, APART, OVER };

typedef struct {
    PyObject_HEAD
    Pass *pass;
    PyObject *line_of;
    int state;
    Py_ssize_t at, count;
    /* Shared: the sessions of each blob, its first entry of the log, and what follows each. */
    PyObject **sessions; /* held by groups; or, apart, the one session, held by its group's tuple */
    Py_ssize_t *first, *next;
    /* Apart: the line of each. */
    Line **lines; /* held by groups */
} Blobs;

static PyTypeObject *Line_Type, *FrameGroup_Type, *Heard_Type, *Pass_Type, *OpenPass_Type, *Blobs_Type;

static PyObject *_all_blobs, *_flush, *_line; /* names of methods */
static uint64_t looks = 0; /* so many times all groups of a pass were looked at */
static uint64_t serials = 0; /* so many passes were made */

static int
grow(void **array, Py_ssize_t *room, Py_ssize_t needed, size_t item)
{
    if (needed <= *room)
        return 0;
    Py_ssize_t more = *room ? *room * 2 : 8;
    if (more < needed)
        more = needed;
    if ((size_t)more > PY_SSIZE_T_MAX / item) {
        PyErr_NoMemory();
        return -1;
    }
    void *moved = PyMem_Realloc(*array, (size_t)more * item);
    if (moved == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *array = moved;
    *room = more;
    return 0;
}

/* Lines. */

static PyObject *
Line_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) || (kwargs != NULL && PyDict_GET_SIZE(kwargs))) {
        PyErr_SetString(PyExc_TypeError, "a line is made of nothing");
        return NULL;
    }
    return type->tp_alloc(type, 0);
}

static void
line_clear(Line *self)
{
    PyObject **frames = self->frames;
    Py_ssize_t count = self->count;
    self->count = self->size = 0;
    self->messages = 0;
    /* These are bytes: nothing of Python runs when they go. */
    for (Py_ssize_t at = 0; at < count; at++)
        Py_DECREF(frames[at]);
    if (self->room > LINE_KEPT) {
        PyMem_Free(self->frames);
        self->frames = NULL;
        self->room = 0;
    }
}

static void
Line_dealloc(Line *self)
{
    PyTypeObject *type = Py_TYPE(self);
    line_clear(self);
    PyMem_Free(self->frames);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static Py_ssize_t
Line_length(Line *self)
{
    return self->count;
}

static inline int
line_append(Line *self, PyObject *frames, Py_ssize_t count)
{
    if (self->count == self->room
        && grow((void **)&self->frames, &self->room, self->count + 1, sizeof(PyObject *)) < 0)
        return -1;
    Py_INCREF(frames);
    self->frames[self->count++] = frames;
    self->size += PyBytes_GET_SIZE(frames);
    self->messages += count;
    return 0;
}

/* Frames. */

static int
check_bytes(PyObject *object, const char *what)
{
    if (PyBytes_Check(object))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s has to be bytes, not %.100s", what, Py_TYPE(object)->tp_name);
    return -1;
}

static PyObject *
FrameGroup_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *framing, *sessions;
    static char *names[] = {"framing", "sessions", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!:FrameGroup", names, &PyTuple_Type,
                                     &framing, &PyTuple_Type, &sessions))
        return NULL;
    if (PyTuple_GET_SIZE(framing) != 3) {
        PyErr_SetString(PyExc_TypeError, "a framing is a lead, a tail and the parts of the lead");
        return NULL;
    }
    PyObject *tail = PyTuple_GET_ITEM(framing, 1), *parts = PyTuple_GET_ITEM(framing, 2);
    PyObject *head = NULL, *mark = NULL;
    if (check_bytes(tail, "a tail") < 0)
        return NULL;
    if (parts != Py_None) {
        if (!PyTuple_Check(parts) || PyTuple_GET_SIZE(parts) != 2) {
            PyErr_SetString(PyExc_TypeError, "the parts of a lead are two");
            return NULL;
        }
        head = PyTuple_GET_ITEM(parts, 0);
        mark = PyTuple_GET_ITEM(parts, 1);
        if (check_bytes(head, "a head") < 0 || check_bytes(mark, "a mark") < 0)
            return NULL;
    }
    FrameGroup *self = (FrameGroup *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->lead = Py_NewRef(PyTuple_GET_ITEM(framing, 0));
    self->tail = Py_NewRef(tail);
    self->head = Py_XNewRef(head);
    self->mark = Py_XNewRef(mark);
    self->sessions = Py_NewRef(sessions);
    return (PyObject *)self;
}

static int
FrameGroup_traverse(FrameGroup *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->lead);
    Py_VISIT(self->sessions);
    Py_VISIT(self->lines);
    return 0;
}

static void
FrameGroup_dealloc(FrameGroup *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->lead);
    Py_XDECREF(self->tail);
    Py_XDECREF(self->head);
    Py_XDECREF(self->mark);
    Py_XDECREF(self->sessions);
    Py_XDECREF(self->lines);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* The digits of a size, at the end of a buffer; return how many. */
static inline int
digits_of(Py_ssize_t size, char buffer[DIGITS_MOST])
{
    int at = DIGITS_MOST;
    do {
        buffer[--at] = (char)('0' + size % 10);
        size /= 10;
    } while (size);
    return DIGITS_MOST - at;
}

static inline char *
put(char *to, const char *from, Py_ssize_t size)
{
    memcpy(to, from, (size_t)size);
    return to + size;
}

static inline char *
put_bytes(char *to, PyObject *bytes)
{
    return put(to, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
}

static int
add_sizes(Py_ssize_t *total, Py_ssize_t more)
{
    if (*total > PY_SSIZE_T_MAX - more) {
        PyErr_NoMemory();
        return -1;
    }
    *total += more;
    return 0;
}

static inline Span
span_of(PyObject *bytes)
{
    return (Span){PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes)};
}

/* What a message of this size has besides its body, where no function says it. */
static inline Py_ssize_t
around(const FrameGroup *group, Py_ssize_t size)
{
    char buffer[DIGITS_MOST];
    return PyBytes_GET_SIZE(group->head) + PyBytes_GET_SIZE(group->mark)
           + PyBytes_GET_SIZE(group->tail) + digits_of(size, buffer);
}

/* The frames of a run of messages, in one. Somebody holds the bodies, and nobody changes them. */
static PyObject *
framed(FrameGroup *group, const Span *bodies, Py_ssize_t count)
{
    char buffer[DIGITS_MOST];
    Py_ssize_t total = 0;
    PyObject *tail = group->tail;
    if (group->head != NULL) {
        for (Py_ssize_t at = 0; at < count; at++)
            if (add_sizes(&total, around(group, bodies[at].size)) < 0
                || add_sizes(&total, bodies[at].size) < 0)
                return NULL;
        PyObject *made = PyBytes_FromStringAndSize(NULL, total);
        if (made == NULL)
            return NULL;
        char *to = PyBytes_AS_STRING(made);
        for (Py_ssize_t at = 0; at < count; at++) {
            int digits = digits_of(bodies[at].size, buffer);
            to = put_bytes(to, group->head);
            to = put(to, buffer + DIGITS_MOST - digits, digits);
            to = put_bytes(to, group->mark);
            to = put(to, bodies[at].at, bodies[at].size);
            to = put_bytes(to, tail);
        }
        return made;
    }
    /* Any function of a size: what it says for each is kept until all are there. */
    PyObject *leads = PyTuple_New(count);
    if (leads == NULL)
        return NULL;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *size = PyLong_FromSsize_t(bodies[at].size);
        PyObject *lead = size == NULL ? NULL : PyObject_CallOneArg(group->lead, size);
        Py_XDECREF(size);
        if (lead == NULL || check_bytes(lead, "a lead") < 0) {
            Py_XDECREF(lead);
            Py_DECREF(leads);
            return NULL;
        }
        PyTuple_SET_ITEM(leads, at, lead);
        if (add_sizes(&total, PyBytes_GET_SIZE(lead) + PyBytes_GET_SIZE(tail)) < 0
            || add_sizes(&total, bodies[at].size) < 0) {
            Py_DECREF(leads);
            return NULL;
        }
    }
    PyObject *made = PyBytes_FromStringAndSize(NULL, total);
    if (made != NULL) {
        char *to = PyBytes_AS_STRING(made);
        for (Py_ssize_t at = 0; at < count; at++) {
            to = put_bytes(to, PyTuple_GET_ITEM(leads, at));
            to = put(to, bodies[at].at, bodies[at].size);
            to = put_bytes(to, tail);
        }
    }
    Py_DECREF(leads);
    return made;
}

/* A list or tuple of bytes, as a tuple of its own: what is called meanwhile cannot change it. The
 * spans of its items are to be freed. */
static PyObject *
bodies_of(PyObject *given, Span **spans)
{
    PyObject *bodies = PySequence_Tuple(given);
    if (bodies == NULL)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(bodies);
    *spans = PyMem_New(Span, (size_t)count);
    if (*spans == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t at = 0; at < count && *spans != NULL; at++) {
        PyObject *body = PyTuple_GET_ITEM(bodies, at);
        if (check_bytes(body, "a body") < 0) {
            PyMem_Free(*spans);
            *spans = NULL;
        } else
            (*spans)[at] = span_of(body);
    }
    if (*spans == NULL)
        Py_CLEAR(bodies);
    return bodies;
}

static PyObject *
FrameGroup_framed(FrameGroup *self, PyObject *given)
{
    Span *spans;
    PyObject *bodies = bodies_of(given, &spans);
    if (bodies == NULL)
        return NULL;
    PyObject *made = framed(self, spans, PyTuple_GET_SIZE(bodies));
    PyMem_Free(spans);
    Py_DECREF(bodies);
    return made;
}

/* Audiences. */

static PyObject *
Heard_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Heard *self = (Heard *)type->tp_alloc(type, 0); /* a subclass takes the arguments */
    if (self != NULL) {
        self->frame_groups = PyTuple_New(0);
        if (self->frame_groups == NULL)
            Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
Heard_traverse(Heard *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->frame_groups);
    return 0;
}

static int
Heard_clear(Heard *self)
{
    Py_CLEAR(self->frame_groups);
    return 0;
}

static void
Heard_dealloc(Heard *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->frame_groups);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *
Heard_get_frame_groups(Heard *self, void *unused)
{
    return self->frame_groups == NULL ? PyTuple_New(0) : Py_NewRef(self->frame_groups);
}

static int
Heard_set_frame_groups(Heard *self, PyObject *groups, void *unused)
{
    if (groups == NULL || !PyTuple_Check(groups)) {
        PyErr_SetString(PyExc_TypeError, "frame groups are a tuple");
        return -1;
    }
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(groups); at++)
        if (!PyObject_TypeCheck(PyTuple_GET_ITEM(groups, at), FrameGroup_Type)) {
            PyErr_SetString(PyExc_TypeError, "frame groups are a tuple of FrameGroup");
            return -1;
        }
    Py_XSETREF(self->frame_groups, Py_NewRef(groups));
    return 0;
}

/* Passes. */

static PyObject *
Pass_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    long long number;
    Py_ssize_t frames_most, bytes_most;
    static char *names[] = {"number", "frames_most", "bytes_most", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Lnn:Pass", names, &number, &frames_most,
                                     &bytes_most))
        return NULL;
    Pass *self = (Pass *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->number = number;
        self->serial = ++serials;
        self->frames_most = frames_most;
        self->bytes_most = bytes_most;
    }
    return (PyObject *)self;
}

/* The pass that comes after one. */
static Pass *
pass_following(Pass *self)
{
    Pass *made = (Pass *)Pass_Type->tp_alloc(Pass_Type, 0);
    if (made != NULL) {
        made->number = self->number + 1;
        made->serial = ++serials;
        made->frames_most = self->frames_most;
        made->bytes_most = self->bytes_most;
    }
    return made;
}

static PyObject *
Pass_following(Pass *self, PyObject *unused)
{
    return (PyObject *)pass_following(self);
}

static int
Pass_traverse(Pass *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (Py_ssize_t at = 0; at < self->group_count; at++)
        Py_VISIT(self->groups[at]);
    return 0;
}

static void
Pass_dealloc(Pass *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t at = 0; at < self->log_count; at++)
        Py_DECREF(self->log[at].frames);
    for (Py_ssize_t at = 0; at < self->group_count; at++)
        Py_DECREF(self->groups[at]);
    PyMem_Free(self->groups);
    PyMem_Free(self->log);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static Py_ssize_t
Pass_length(Pass *self)
{
    return self->log_count;
}

static inline int
is_full(Pass *self)
{
    return self->frames > self->frames_most || self->bytes > self->bytes_most;
}

static PyObject *
Pass_is_full(Pass *self, void *unused)
{
    return PyBool_FromLong(is_full(self));
}

/* Log a run of bodies as one entry of a group. */
static int
pass_log(Pass *self, FrameGroup *group, const Span *bodies, Py_ssize_t count)
{
    PyObject *frames = framed(group, bodies, count);
    if (frames == NULL)
        return -1;
    if (grow((void **)&self->log, &self->log_room, self->log_count + 1, sizeof(Logged)) < 0
        || grow((void **)&self->groups, &self->group_room, self->group_count + 1,
                sizeof(FrameGroup *)) < 0) {
        Py_DECREF(frames);
        return -1;
    }
    group->heard_in = self->number;
    if (group->logged_by != self->serial) {
        group->logged_by = self->serial;
        self->groups[self->group_count++] = (FrameGroup *)Py_NewRef(group);
    }
    self->log[self->log_count++] = (Logged){group, frames, count};
    self->frames += count;
    self->bytes += PyBytes_GET_SIZE(frames);
    return 0;
}

static int
log_to_all(Pass *self, PyObject *groups, Span body)
{
    Py_INCREF(groups);
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(groups); at++)
        if (pass_log(self, (FrameGroup *)PyTuple_GET_ITEM(groups, at), &body, 1) < 0) {
            Py_DECREF(groups);
            return -1;
        }
    Py_DECREF(groups);
    return 0;
}

static int
check_groups(PyObject *groups)
{
    int is_good = PyTuple_Check(groups);
    for (Py_ssize_t at = 0; is_good && at < PyTuple_GET_SIZE(groups); at++)
        is_good = PyObject_TypeCheck(PyTuple_GET_ITEM(groups, at), FrameGroup_Type);
    if (is_good)
        return 0;
    PyErr_SetString(PyExc_TypeError, "frame groups are a tuple of FrameGroup");
    return -1;
}

static PyObject *
Pass_add(Pass *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "add() takes frame groups and a body");
        return NULL;
    }
    if (check_groups(args[0]) < 0 || check_bytes(args[1], "a body") < 0
        || log_to_all(self, args[0], span_of(args[1])) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
Pass_add_all(Pass *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "add_all() takes a frame group and bodies");
        return NULL;
    }
    if (!PyObject_TypeCheck(args[0], FrameGroup_Type)) {
        PyErr_SetString(PyExc_TypeError, "add_all() takes a FrameGroup");
        return NULL;
    }
    Span *spans;
    PyObject *bodies = bodies_of(args[1], &spans);
    if (bodies == NULL)
        return NULL;
    int failed = pass_log(self, (FrameGroup *)args[0], spans, PyTuple_GET_SIZE(bodies));
    PyMem_Free(spans);
    Py_DECREF(bodies);
    if (failed < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* run(known, moment, names, bodies, at, counts): publish while all is known; return where not. */
static PyObject *
Pass_run(Pass *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 6 || !PyDict_Check(args[0]) || !PyList_Check(args[5])) {
        PyErr_SetString(PyExc_TypeError,
                        "run() takes audiences, a moment, names, bodies, a start and counts");
        return NULL;
    }
    PyObject *known = args[0], *counts = args[5], *names = NULL, *bodies = NULL;
    long long moment = PyLong_AsLongLong(args[1]);
    if (moment == -1 && PyErr_Occurred())
        return NULL;
    Py_ssize_t at = PyLong_AsSsize_t(args[4]);
    if (at == -1 && PyErr_Occurred())
        return NULL;
    /* Both are held, and asked for their length each time: a framing may be a function. */
    names = PySequence_Fast(args[2], "names are a list or a tuple");
    bodies = names == NULL ? NULL : PySequence_Fast(args[3], "bodies are a list or a tuple");
    if (bodies == NULL)
        goto failed;
    if (at < 0) {
        PyErr_SetString(PyExc_ValueError, "a run starts at one of its messages");
        goto failed;
    }
    while (at < PySequence_Fast_GET_SIZE(names) && at < PySequence_Fast_GET_SIZE(bodies)
           && !is_full(self)) {
        PyObject *name = PySequence_Fast_GET_ITEM(names, at);
        PyObject *body = PySequence_Fast_GET_ITEM(bodies, at);
        if (!PyBytes_CheckExact(name)) {
            PyErr_SetString(PyExc_TypeError, "a name has to be bytes");
            goto failed;
        }
        if (check_bytes(body, "a body") < 0)
            goto failed;
        PyObject *found = PyDict_GetItemWithError(known, name);
        if (found == NULL) {
            if (PyErr_Occurred())
                goto failed;
            break;
        }
        if (!PyObject_TypeCheck(found, Heard_Type)) {
            PyErr_SetString(PyExc_TypeError, "what is known are audiences");
            goto failed;
        }
        Heard *heard = (Heard *)found;
        if (heard->moment != moment)
            break;
        Py_INCREF(heard);
        Py_INCREF(body);
        heard->published += 1;
        heard->size += PyBytes_GET_SIZE(body);
        int is_bad = heard->frame_groups != NULL
                     && log_to_all(self, heard->frame_groups, span_of(body)) < 0;
        Py_DECREF(body);
        PyObject *receivers = is_bad ? NULL : PyLong_FromLongLong(heard->receivers);
        Py_DECREF(heard);
        if (receivers == NULL || PyList_Append(counts, receivers) < 0) {
            Py_XDECREF(receivers);
            goto failed;
        }
        Py_DECREF(receivers);
        at++;
    }
    Py_DECREF(names);
    Py_DECREF(bodies);
    return PyLong_FromSsize_t(at);
failed:
    Py_XDECREF(names);
    Py_XDECREF(bodies);
    return NULL;
}

/* Find the lines of a group. */
static int
prepare_group(FrameGroup *group, PyObject *line_of)
{
    if (group->lines != NULL)
        return 0;
    Py_ssize_t count = PyTuple_GET_SIZE(group->sessions);
    PyObject *lines = PyTuple_New(count);
    if (lines == NULL)
        return -1;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *line = PyObject_CallOneArg(line_of, PyTuple_GET_ITEM(group->sessions, at));
        if (line != NULL && !Py_IS_TYPE(line, Line_Type)) {
            PyErr_SetString(PyExc_TypeError, "frames are put together on a Line");
            Py_CLEAR(line);
        }
        if (line == NULL) {
            Py_DECREF(lines);
            return -1;
        }
        PyTuple_SET_ITEM(lines, at, line);
    }
    if (group->lines == NULL)
        group->lines = lines;
    else /* whoever was asked did it, too; blobs may be at work with those */
        Py_DECREF(lines);
    return 0;
}

static int
prepare(Pass *self, PyObject *line_of)
{
    if (self->group_count > 1)
        for (Py_ssize_t at = 0; at < self->group_count; at++)
            if (prepare_group(self->groups[at], line_of) < 0)
                return -1;
    return 0;
}

static PyObject *
Pass_prepare(Pass *self, PyObject *line_of)
{
    if (prepare(self, line_of) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
Pass_blobs(Pass *self, PyObject *line_of)
{
    Blobs *blobs = (Blobs *)Blobs_Type->tp_alloc(Blobs_Type, 0);
    if (blobs == NULL)
        return NULL;
    blobs->pass = (Pass *)Py_NewRef(self);
    blobs->line_of = Py_NewRef(line_of);
    blobs->state = NEW;
    return (PyObject *)blobs;
}

/* Blobs. */

static int
Blobs_traverse(Blobs *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->pass);
    Py_VISIT(self->line_of);
    return 0;
}

static int
Blobs_clear(Blobs *self)
{
    self->state = OVER;
    Py_CLEAR(self->pass);
    Py_CLEAR(self->line_of);
    return 0;
}

static void
Blobs_dealloc(Blobs *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Blobs_clear(self);
    PyMem_Free(self->sessions);
    PyMem_Free(self->first);
    PyMem_Free(self->next);
    PyMem_Free(self->lines);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *
blob_of(PyObject *blob, PyObject *sessions, long long messages)
{
    PyObject *number = PyLong_FromLongLong(messages);
    if (number == NULL) {
        Py_DECREF(blob);
        return NULL;
    }
    PyObject *made = PyTuple_New(3);
    if (made == NULL) {
        Py_DECREF(blob);
        Py_DECREF(number);
        return NULL;
    }
    PyTuple_SET_ITEM(made, 0, blob);
    PyTuple_SET_ITEM(made, 1, Py_NewRef(sessions));
    PyTuple_SET_ITEM(made, 2, number);
    return made;
}

/* A blob of entries of the log: all, or those that follow one another in a list of numbers. */
static PyObject *
joined(Pass *pass, Py_ssize_t first, const Py_ssize_t *next, PyObject *sessions)
{
    Py_ssize_t size = 0;
    long long messages = 0;
    for (Py_ssize_t at = first; at >= 0 && at < pass->log_count;
         at = next == NULL ? at + 1 : next[at]) {
        if (add_sizes(&size, PyBytes_GET_SIZE(pass->log[at].frames)) < 0)
            return NULL;
        messages += pass->log[at].count;
    }
    PyObject *blob = PyBytes_FromStringAndSize(NULL, size);
    if (blob == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(blob);
    for (Py_ssize_t at = first; at >= 0 && at < pass->log_count;
         at = next == NULL ? at + 1 : next[at])
        to = put_bytes(to, pass->log[at].frames);
    return blob_of(blob, sessions, messages);
}

/* Whether two tuples have the same sessions. Nothing of Python's is asked: lines are marked. */
static int
is_same(PyObject *some, PyObject *others)
{
    Py_ssize_t count = PyTuple_GET_SIZE(some);
    if (some == others)
        return 1;
    if (count != PyTuple_GET_SIZE(others))
        return 0;
    for (Py_ssize_t at = 0; at < count; at++)
        if (PyTuple_GET_ITEM(some, at) != PyTuple_GET_ITEM(others, at))
            return 0;
    return 1;
}

/* Whether nobody hears more than one set of sessions does. Then each group knows its blob, and the
 * sessions of each blob are in the array. */
static int
find_shares(Blobs *self)
{
    Pass *pass = self->pass;
    uint64_t look = ++looks;
    self->count = 0;
    for (Py_ssize_t at = 0; at < pass->group_count; at++) {
        FrameGroup *group = pass->groups[at];
        Py_ssize_t lines = PyTuple_GET_SIZE(group->lines);
        Line *first = lines ? (Line *)PyTuple_GET_ITEM(group->lines, 0) : NULL;
        if (first != NULL && first->seen_in == look) {
            if (!is_same(first->sessions, group->sessions))
                return 0;
            group->share = first->share;
            continue;
        }
        group->share = self->count;
        self->sessions[self->count++] = group->sessions;
        for (Py_ssize_t each = 0; each < lines; each++) {
            Line *line = (Line *)PyTuple_GET_ITEM(group->lines, each);
            if (line->seen_in == look)
                return 0;
            line->seen_in = look;
            line->sessions = group->sessions;
            line->share = group->share;
        }
    }
    return 1;
}

static int
share_out(Blobs *self)
{
    Pass *pass = self->pass;
    size_t groups = (size_t)pass->group_count, entries = (size_t)pass->log_count;
    self->first = PyMem_New(Py_ssize_t, groups);
    self->next = PyMem_New(Py_ssize_t, entries);
    Py_ssize_t *last = PyMem_New(Py_ssize_t, groups);
    if (self->first == NULL || self->next == NULL || last == NULL) {
        PyMem_Free(last);
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t at = 0; at < self->count; at++)
        last[at] = self->first[at] = -1;
    for (Py_ssize_t at = 0; at < pass->log_count; at++) {
        Py_ssize_t share = pass->log[at].group->share;
        self->next[at] = -1;
        if (last[share] < 0)
            self->first[share] = at;
        else
            self->next[last[share]] = at;
        last[share] = at;
    }
    PyMem_Free(last);
    self->state = SHARED;
    return 0;
}

/* Put the frames of each session together, in the order in which they were published. */
static int
set_apart(Blobs *self)
{
    Pass *pass = self->pass;
    uint64_t look = ++looks;
    Py_ssize_t room = 0;
    PyMem_Free(self->sessions);
    self->sessions = NULL;
    self->count = 0;
    Py_ssize_t session_room = 0;
    for (Py_ssize_t at = 0; at < pass->group_count; at++) {
        FrameGroup *group = pass->groups[at];
        for (Py_ssize_t each = 0; each < PyTuple_GET_SIZE(group->lines); each++) {
            Line *line = (Line *)PyTuple_GET_ITEM(group->lines, each);
            if (line->seen_in == look)
                continue;
            line->seen_in = look;
            if (grow((void **)&self->lines, &room, self->count + 1, sizeof(Line *)) < 0
                || grow((void **)&self->sessions, &session_room, self->count + 1,
                        sizeof(PyObject *)) < 0)
                return -1;
            self->lines[self->count] = line;
            self->sessions[self->count++] = PyTuple_GET_ITEM(group->sessions, each);
        }
    }
    for (Py_ssize_t at = 0; at < pass->log_count; at++) {
        const Logged *logged = &pass->log[at];
        PyObject *lines = logged->group->lines;
        Py_ssize_t count = PyTuple_GET_SIZE(lines);
        for (Py_ssize_t each = 0; each < count; each++)
            if (line_append((Line *)PyTuple_GET_ITEM(lines, each), logged->frames, logged->count)
                < 0)
                return -1;
    }
    self->state = APART;
    return 0;
}

static int
begin(Blobs *self)
{
    Pass *pass = self->pass;
    if (pass->group_count <= 1) {
        self->state = pass->group_count ? ALONE : OVER;
        return 0;
    }
    Py_ssize_t groups = pass->group_count;
    self->state = BEGUN;
    if (prepare(pass, self->line_of) < 0)
        return -1;
    if (pass->group_count != groups) {
        PyErr_SetString(PyExc_RuntimeError, "what is written is not published to");
        return -1;
    }
    self->sessions = PyMem_New(PyObject *, (size_t)pass->group_count);
    if (self->sessions == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return find_shares(self) ? share_out(self) : set_apart(self);
}

static int
begun(Blobs *self)
{
    if (self->state == BEGUN) {
        PyErr_SetString(PyExc_RuntimeError, "blobs are asked for while their lines are found");
        return -1;
    }
    if (self->state == NEW && begin(self) < 0) {
        self->state = OVER;
        return -1;
    }
    return 0;
}

/* The next session that has frames of its own, and its line; or nothing. */
static PyObject *
next_apart(Blobs *self, Line **line)
{
    while (self->state == APART && self->at < self->count) {
        Py_ssize_t at = self->at++;
        *line = self->lines[at];
        if ((*line)->count) /* or somebody took it while another blob was written */
            return self->sessions[at];
    }
    return NULL;
}

static int
blobs_next(PyObject *blobs, Frames *frames)
{
    Line *line;
    if (begun((Blobs *)blobs) < 0)
        return -1;
    PyObject *session = next_apart((Blobs *)blobs, &line);
    if (session == NULL)
        return 0;
    *frames = (Frames){Py_NewRef(session), Py_NewRef(line), line->frames, line->count,
                       line->room, line->size, line->messages};
    line->frames = NULL;
    line->count = line->room = line->size = 0;
    line->messages = 0;
    return 1;
}

static void
blobs_let_go(Frames *frames)
{
    Line *line = (Line *)frames->line;
    for (Py_ssize_t at = 0; at < frames->count; at++)
        Py_DECREF(frames->frames[at]);
    if (line->frames == NULL && frames->room <= LINE_KEPT) {
        line->frames = frames->frames;
        line->room = frames->room;
    } else
        PyMem_Free(frames->frames);
    Py_DECREF(line);
    Py_DECREF(frames->session);
}

static BlobsPort blobs_port = {NULL, blobs_next, blobs_let_go};

static PyObject *
Blobs_next(Blobs *self)
{
    if (begun(self) < 0)
        return NULL;
    if (self->state == ALONE) {
        self->state = OVER;
        return joined(self->pass, 0, NULL, self->pass->groups[0]->sessions);
    }
    if (self->state == SHARED && self->at < self->count) {
        Py_ssize_t at = self->at++;
        return joined(self->pass, self->first[at], self->next, self->sessions[at]);
    }
    Line *line;
    PyObject *session = next_apart(self, &line);
    if (session != NULL) {
        PyObject *blob = PyBytes_FromStringAndSize(NULL, line->size);
        if (blob == NULL)
            return NULL;
        char *to = PyBytes_AS_STRING(blob);
        for (Py_ssize_t each = 0; each < line->count; each++)
            to = put_bytes(to, line->frames[each]);
        long long messages = line->messages;
        line_clear(line);
        PyObject *one = PyTuple_Pack(1, session);
        if (one == NULL) {
            Py_DECREF(blob);
            return NULL;
        }
        PyObject *made = blob_of(blob, one, messages);
        Py_DECREF(one);
        return made;
    }
    Blobs_clear(self);
    return NULL;
}

/* The pass that is open. */

static PyObject *
OpenPass_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    return type->tp_alloc(type, 0); /* a subclass takes the arguments */
}

static int
OpenPass_traverse(OpenPass *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->pass);
    Py_VISIT(self->exact);
    Py_VISIT(self->exact_here);
    Py_VISIT(self->by_session);
    Py_VISIT(self->tap);
    Py_VISIT(self->passes);
    return 0;
}

static int
OpenPass_clear(OpenPass *self)
{
    Py_CLEAR(self->pass);
    Py_CLEAR(self->exact);
    Py_CLEAR(self->exact_here);
    Py_CLEAR(self->by_session);
    Py_CLEAR(self->tap);
    Py_CLEAR(self->passes);
    return 0;
}

static void
OpenPass_dealloc(OpenPass *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    OpenPass_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* End the pass that is open, if there is something in it. */
static int
open_flush(OpenPass *self)
{
    Pass *pass = (Pass *)self->pass;
    if (pass == NULL || !Py_IS_TYPE(pass, Pass_Type) || self->passes == NULL
        || !PyList_Check(self->passes)) {
        PyErr_SetString(PyExc_TypeError, "what is open is a Pass, and what is over is a list");
        return -1;
    }
    if (!pass->log_count)
        return 0;
    Pass *next = pass_following(pass);
    if (next == NULL || PyList_Append(self->passes, (PyObject *)pass) < 0) {
        Py_XDECREF(next);
        return -1;
    }
    self->is_unwritten = 1;
    Py_SETREF(self->pass, (PyObject *)next);
    return 0;
}

static PyObject *
OpenPass_flush(OpenPass *self, PyObject *unused)
{
    return open_flush(self) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
OpenPass_take(OpenPass *self, PyObject *unused)
{
    PyObject *none = PyList_New(0);
    if (none == NULL || open_flush(self) < 0) {
        Py_XDECREF(none);
        return NULL;
    }
    PyObject *passes = self->passes, *blobs = NULL;
    self->passes = none;
    self->is_unwritten = 0;
    if (PyList_GET_SIZE(passes) == 1 && Py_IS_TYPE(PyList_GET_ITEM(passes, 0), Pass_Type)) {
        PyObject *line_of = PyObject_GetAttr((PyObject *)self, _line);
        if (line_of != NULL)
            blobs = Pass_blobs((Pass *)PyList_GET_ITEM(passes, 0), line_of);
        Py_XDECREF(line_of);
    } else
        blobs = PyObject_CallMethodOneArg((PyObject *)self, _all_blobs, passes);
    Py_DECREF(passes);
    return blobs;
}

static int
open_is_plain(PyObject *channels, PyObject *session)
{
    OpenPass *self = (OpenPass *)channels;
    if ((self->tap != NULL && self->tap != Py_None) || self->by_session == NULL
        || !PyDict_Check(self->by_session) || self->exact == NULL || !PyDict_Check(self->exact))
        return 0;
    int has = PyDict_Contains(self->by_session, session);
    return has < 0 ? -1 : !has;
}

static int
open_is_unwritten(PyObject *channels)
{
    return ((OpenPass *)channels)->is_unwritten;
}

/* Who hears a channel, if that is known and of this moment; a new reference, or nothing. */
static Heard *
open_heard(OpenPass *self, PyObject *known, Span channel)
{
    PyObject *name = PyBytes_FromStringAndSize(channel.at, channel.size);
    if (name == NULL)
        return NULL;
    PyObject *found = PyDict_GetItemWithError(known, name);
    Py_XINCREF(found);
    Py_DECREF(name);
    if (found != NULL
        && (!PyObject_TypeCheck(found, Heard_Type) || ((Heard *)found)->moment != self->moment
            || ((Heard *)found)->frame_groups == NULL))
        Py_CLEAR(found);
    return (Heard *)found;
}

/* So many messages on one channel are logged together for each of these groups: up to the one that
 * fills the pass. */
static Py_ssize_t
fitting(const Pass *pass, PyObject *groups, const Publishing *messages, Py_ssize_t count)
{
    Py_ssize_t at = 0, frames = pass->frames, bytes = pass->bytes;
    do {
        Py_ssize_t size = messages[at].body.size;
        for (Py_ssize_t each = 0; each < PyTuple_GET_SIZE(groups); each++) {
            const FrameGroup *group = (FrameGroup *)PyTuple_GET_ITEM(groups, each);
            if (group->head == NULL)
                return 1;
            frames++;
            bytes += around(group, size) + size;
        }
        at++;
    } while (at < count && frames <= pass->frames_most && bytes <= pass->bytes_most);
    return at;
}

#define TOGETHER 64 /* messages that are logged as one entry */

/* Publish messages on one channel; return how many, which are fewer if its audience is not any
 * longer that of the moment, or -1. */
static Py_ssize_t
open_publish_same(OpenPass *self, Heard *heard, const Publishing *messages, Py_ssize_t count)
{
    Py_ssize_t done = 0;
    PyObject *groups = Py_NewRef(heard->frame_groups);
    Py_ssize_t forms = PyTuple_GET_SIZE(groups);
    while (done < count && heard->moment == self->moment) {
        Pass *pass = (Pass *)self->pass;
        if (pass == NULL || !Py_IS_TYPE(pass, Pass_Type) || is_full(pass))
            break;
        const Publishing *first = messages + done;
        Py_ssize_t some = 1;
        int is_bad = 0;
        Py_INCREF(pass);
        if (forms == 1 || (forms && heard->is_apart)) {
            Span bodies[TOGETHER];
            some = count - done < TOGETHER ? count - done : TOGETHER;
            some = fitting(pass, groups, first, some);
            for (Py_ssize_t at = 0; at < some; at++)
                bodies[at] = first[at].body;
            /* Each session hears one of the groups alone, so a whole run may be behind another. */
            for (Py_ssize_t at = 0; at < forms && !is_bad; at++)
                is_bad = pass_log(pass, (FrameGroup *)PyTuple_GET_ITEM(groups, at), bodies, some) < 0;
        } else if (forms)
            is_bad = log_to_all(pass, groups, first->body) < 0;
        int is_over = forms && is_full(pass);
        Py_DECREF(pass);
        if (is_bad) {
            done = -1;
            break;
        }
        for (Py_ssize_t at = 0; at < some; at++)
            heard->size += first[at].body.size;
        heard->published += some;
        done += some;
        if (forms)
            self->is_unwritten = 1;
        if (is_over) {
            PyObject *flushed = PyObject_CallMethodNoArgs((PyObject *)self, _flush);
            if (flushed == NULL) {
                done = -1;
                break;
            }
            Py_DECREF(flushed);
        }
    }
    Py_DECREF(groups);
    return done;
}

/* Publish messages to those who are known to hear their channels. */
static Py_ssize_t
open_publish_to(OpenPass *self, PyObject *known, const Publishing *messages, Py_ssize_t count,
                long long *receivers)
{
    Py_ssize_t done = 0;
    while (done < count) {
        const Publishing *first = messages + done;
        Heard *heard = open_heard(self, known, first->channel);
        if (heard == NULL)
            break;
        Py_ssize_t same = 1;
        while (done + same < count && first[same].channel.size == first->channel.size
               && !memcmp(first[same].channel.at, first->channel.at, (size_t)first->channel.size))
            same++;
        Py_ssize_t some = open_publish_same(self, heard, first, same);
        for (Py_ssize_t at = 0; at < some && receivers != NULL; at++)
            receivers[done + at] = heard->receivers;
        Py_DECREF(heard);
        if (some < 0)
            return -1;
        done += some;
        if (some < same)
            break;
    }
    return PyErr_Occurred() ? -1 : done;
}

static Py_ssize_t
open_publish(PyObject *channels, const Publishing *messages, Py_ssize_t count,
             long long *receivers)
{
    OpenPass *self = (OpenPass *)channels;
    return open_publish_to(self, self->exact, messages, count, receivers);
}

static Py_ssize_t
open_deliver(PyObject *channels, const Publishing *messages, Py_ssize_t count)
{
    OpenPass *self = (OpenPass *)channels;
    if (self->exact_here == NULL || !PyDict_Check(self->exact_here))
        return 0;
    return open_publish_to(self, self->exact_here, messages, count, NULL);
}

static ChannelsPort port = {NULL, open_is_plain, open_publish, open_deliver, open_is_unwritten};

/* Types. */

static PyType_Slot line_slots[] = {
    {Py_tp_doc, "Where the frames of one session are put together."},
    {Py_tp_new, Line_new},
    {Py_tp_dealloc, Line_dealloc},
    {Py_sq_length, Line_length},
    {0, NULL},
};
static PyType_Spec line_spec = {"headgate.core.channels._passes.Line", sizeof(Line), 0,
                                Py_TPFLAGS_DEFAULT, line_slots};

static PyMemberDef group_members[] = {
    {"lead", T_OBJECT, offsetof(FrameGroup, lead), READONLY, NULL},
    {"tail", T_OBJECT, offsetof(FrameGroup, tail), READONLY, NULL},
    {"sessions", T_OBJECT, offsetof(FrameGroup, sessions), READONLY, NULL},
    {"heard_in", T_LONGLONG, offsetof(FrameGroup, heard_in), READONLY, NULL},
    {NULL},
};
static PyMethodDef group_methods[] = {
    {"framed", (PyCFunction)FrameGroup_framed, METH_O, "The frames of a run of messages."},
    {NULL},
};
static PyType_Slot group_slots[] = {
    {Py_tp_doc, "One form of a channel's messages, and who gets it."},
    {Py_tp_new, FrameGroup_new},
    {Py_tp_dealloc, FrameGroup_dealloc},
    {Py_tp_traverse, FrameGroup_traverse},
    {Py_tp_members, group_members},
    {Py_tp_methods, group_methods},
    {0, NULL},
};
static PyType_Spec group_spec = {"headgate.core.channels._passes.FrameGroup", sizeof(FrameGroup), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, group_slots};

static PyMemberDef heard_members[] = {
    {"moment", T_LONGLONG, offsetof(Heard, moment), 0, NULL},
    {"published", T_LONGLONG, offsetof(Heard, published), 0, NULL},
    {"size", T_LONGLONG, offsetof(Heard, size), 0, NULL},
    {"receivers", T_LONGLONG, offsetof(Heard, receivers), 0, NULL},
    {"is_apart", T_BOOL, offsetof(Heard, is_apart), 0, NULL},
    {NULL},
};
static PyGetSetDef heard_getset[] = {
    {"frame_groups", (getter)Heard_get_frame_groups, (setter)Heard_set_frame_groups, NULL, NULL},
    {NULL},
};
static PyType_Slot heard_slots[] = {
    {Py_tp_doc, "What an audience counts and is told by."},
    {Py_tp_new, Heard_new},
    {Py_tp_dealloc, Heard_dealloc},
    {Py_tp_traverse, Heard_traverse},
    {Py_tp_clear, Heard_clear},
    {Py_tp_members, heard_members},
    {Py_tp_getset, heard_getset},
    {0, NULL},
};
static PyType_Spec heard_spec = {"headgate.core.channels._passes.Heard", sizeof(Heard), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
                                 heard_slots};

static PyMemberDef pass_members[] = {
    {"number", T_LONGLONG, offsetof(Pass, number), READONLY, NULL},
    {NULL},
};
static PyGetSetDef pass_getset[] = {
    {"is_full", (getter)Pass_is_full, NULL, NULL, NULL},
    {NULL},
};
static PyMethodDef pass_methods[] = {
    {"add", (PyCFunction)(void (*)(void))Pass_add, METH_FASTCALL, "Log a message for groups."},
    {"add_all", (PyCFunction)(void (*)(void))Pass_add_all, METH_FASTCALL, "Log a run for one."},
    {"run", (PyCFunction)(void (*)(void))Pass_run, METH_FASTCALL, "Log while all is known."},
    {"following", (PyCFunction)Pass_following, METH_NOARGS, "The pass that comes after."},
    {"prepare", (PyCFunction)Pass_prepare, METH_O, "Find the lines of all who hear it."},
    {"blobs", (PyCFunction)Pass_blobs, METH_O, "What is to be written of it."},
    {NULL},
};
static PyType_Slot pass_slots[] = {
    {Py_tp_doc, "What was published in a row to the rosters of one moment."},
    {Py_tp_new, Pass_new},
    {Py_tp_dealloc, Pass_dealloc},
    {Py_tp_traverse, Pass_traverse},
    {Py_sq_length, Pass_length},
    {Py_tp_members, pass_members},
    {Py_tp_getset, pass_getset},
    {Py_tp_methods, pass_methods},
    {0, NULL},
};
static PyType_Spec pass_spec = {"headgate.core.channels._passes.Pass", sizeof(Pass), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, pass_slots};

static PyMemberDef open_members[] = {
    {"_moment", T_LONGLONG, offsetof(OpenPass, moment), 0, NULL},
    {"_pass", T_OBJECT_EX, offsetof(OpenPass, pass), 0, NULL},
    {"_passes", T_OBJECT_EX, offsetof(OpenPass, passes), 0, NULL},
    {"_exact", T_OBJECT_EX, offsetof(OpenPass, exact), 0, NULL},
    {"_exact_here", T_OBJECT_EX, offsetof(OpenPass, exact_here), 0, NULL},
    {"_by_session", T_OBJECT_EX, offsetof(OpenPass, by_session), 0, NULL},
    {"tap", T_OBJECT, offsetof(OpenPass, tap), 0, NULL},
    {"is_unwritten", T_BOOL, offsetof(OpenPass, is_unwritten), 0, NULL},
    {NULL},
};
static PyMethodDef open_methods[] = {
    {"flush", (PyCFunction)OpenPass_flush, METH_NOARGS, "End the current pass."},
    {"take", (PyCFunction)OpenPass_take, METH_NOARGS, "The blobs to be written."},
    {NULL},
};
static PyType_Slot open_slots[] = {
    {Py_tp_doc, "The pass that plain messages are published to, and who hears them."},
    {Py_tp_new, OpenPass_new},
    {Py_tp_dealloc, OpenPass_dealloc},
    {Py_tp_traverse, OpenPass_traverse},
    {Py_tp_clear, OpenPass_clear},
    {Py_tp_members, open_members},
    {Py_tp_methods, open_methods},
    {0, NULL},
};
static PyType_Spec open_spec = {"headgate.core.channels._passes.OpenPass", sizeof(OpenPass), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
                                open_slots};

static PyType_Slot blobs_slots[] = {
    {Py_tp_doc, "The blobs of a pass, each made when it is asked for."},
    {Py_tp_dealloc, Blobs_dealloc},
    {Py_tp_traverse, Blobs_traverse},
    {Py_tp_clear, Blobs_clear},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, Blobs_next},
    {0, NULL},
};
static PyType_Spec blobs_spec = {
    "headgate.core.channels._passes.Blobs", sizeof(Blobs), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, blobs_slots};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_passes", NULL, -1, NULL};

static PyTypeObject *
add_type(PyObject *made, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type == NULL || PyModule_AddObjectRef(made, name, type) < 0) {
        Py_XDECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

/* Add an object to a module and let go of it. */
static int
add_object(PyObject *made, const char *name, PyObject *object)
{
    int failed = object == NULL ? -1 : PyModule_AddObjectRef(made, name, object);
    Py_XDECREF(object);
    return failed;
}

PyMODINIT_FUNC
PyInit__passes(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made == NULL)
        return NULL;
    if ((Line_Type = add_type(made, &line_spec, "Line")) == NULL
        || (FrameGroup_Type = add_type(made, &group_spec, "FrameGroup")) == NULL
        || (Heard_Type = add_type(made, &heard_spec, "Heard")) == NULL
        || (Pass_Type = add_type(made, &pass_spec, "Pass")) == NULL
        || (OpenPass_Type = add_type(made, &open_spec, "OpenPass")) == NULL
        || (Blobs_Type = add_type(made, &blobs_spec, "Blobs")) == NULL
        || (_all_blobs = PyUnicode_InternFromString("_all_blobs")) == NULL
        || (_flush = PyUnicode_InternFromString("flush")) == NULL
        || (_line = PyUnicode_InternFromString("_line")) == NULL
        || (port.type = OpenPass_Type,
            add_object(made, "channels_port", PyCapsule_New(&port, CHANNELS_PORT, NULL))) < 0
        || (blobs_port.type = Blobs_Type,
            add_object(made, "blobs_port", PyCapsule_New(&blobs_port, BLOBS_PORT, NULL))) < 0
        || PyModule_AddStringConstant(made, "SOURCE", HEADGATE_SOURCE) < 0)
        Py_CLEAR(made);
    return made;
}
