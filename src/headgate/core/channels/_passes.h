/* What the channels offer to a wire that is compiled, too: plain messages on exact channels, as they
 * lie in what was read. A capsule of this module has one `ChannelsPort`. */

#ifndef HEADGATE_PASSES_H
#define HEADGATE_PASSES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define CHANNELS_PORT "headgate.core.channels._passes.channels_port"

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
    /* Whether there is something to take. */
    int (*is_unwritten)(PyObject *channels);
} ChannelsPort;

#endif
