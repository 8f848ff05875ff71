/* What the channels offer to others that are compiled, too: capsules of this module have one of each
 * port. `ChannelsPort` publishes plain messages on exact channels, as they lie in what was read;
 * `BlobsPort` gives the frames of a session to who sends them, before a blob is made of them. */

#ifndef HEADGATE_PASSES_H
#define HEADGATE_PASSES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define CHANNELS_PORT "headgate.core.channels._passes.channels_port"
#define BLOBS_PORT "headgate.core.channels._passes.blobs_port"

/* Bytes that somebody else holds. */
typedef struct {
    const char *at;
    Py_ssize_t size;
} Span;

typedef struct {
    Span channel, body;
} Publishing;

typedef struct {
    PyTypeObject *type; /* of all channels that may be given here */
    /* Whether nobody looks at all that is published, and a session hears none of it. */
    int (*is_plain)(PyObject *channels, PyObject *session);
    /* Publish messages while who hears their channels is known; return how many that were, and have
     * the receivers of each. -1 with an error set. */
    Py_ssize_t (*publish)(PyObject *channels, const Publishing *messages, Py_ssize_t count,
                          long long *receivers);
    /* The same for messages that another worker published, to the sessions here alone. */
    Py_ssize_t (*deliver)(PyObject *channels, const Publishing *messages, Py_ssize_t count);
    /* Whether there is something to take. */
    int (*is_unwritten)(PyObject *channels);
} ChannelsPort;

/* The frames that one session is to be sent, taken out of its line. */
typedef struct {
    PyObject *session, *line; /* held */
    PyObject **frames; /* bytes, each held */
    Py_ssize_t count, room, size;
    long long messages;
} Frames;

typedef struct {
    PyTypeObject *type; /* of the blobs of one pass */
    /* The frames of the next session, where each has its own: 1. 0 if there is none, or a blob is for
     * several: then they are asked for as Python does. -1 with an error set. */
    int (*next)(PyObject *blobs, Frames *frames);
    void (*let_go)(Frames *frames);
} BlobsPort;

#endif
