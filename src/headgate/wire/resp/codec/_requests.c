/* What a Redis client sends, taken apart, compiled: the twins of `pure_pipeline` in requests.py and
 * of `pure_run_in` in publish_runs.py. Both take what is plain and whole and stop at everything else, which
 * is then taken by `RequestParser._next`: that one alone is exact about errors and limits.
 *
 * Nothing is made for what is announced and not there: an argument costs what it has in bytes. The
 * data are bytes, which nobody changes, and nothing of Python's is called.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#define ARGUMENT_BYTES 6 /* the shortest: $0, two line ends */
#define DIGITS_MOST 9
#define NAME_BYTES 4095 /* the longest name in a run, as in publish_runs.py */

static const char UPPER[] = "*3\r\n$7\r\nPUBLISH\r\n$", LOWER[] = "*3\r\n$7\r\npublish\r\n$";
#define START_BYTES ((Py_ssize_t)sizeof(UPPER) - 1)

/* The number behind a mark, and its line end: digits as they are usually written. Return where the
 * next line starts, or NULL if that is anything else or not there. */
static inline const char *
read_number(const char *at, const char *end, Py_ssize_t *number)
{
    const char *first = at;
    Py_ssize_t value = 0;
    while (at < end && *at >= '0' && *at <= '9') {
        if (at - first == DIGITS_MOST)
            return NULL;
        value = value * 10 + (*at++ - '0');
    }
    if (at == first || (*first == '0' && at - first > 1))
        return NULL;
    if (end - at < 2 || at[0] != '\r' || at[1] != '\n')
        return NULL;
    *number = value;
    return at + 2;
}

/* An argument behind its mark: where it starts, and how long it is. Return what is behind it, of
 * which two bytes are skipped and not looked at; NULL if it is not plain or not whole. */
static inline const char *
read_argument(const char *at, const char *end, const char **start, Py_ssize_t *size)
{
    at = read_number(at, end, size);
    if (at == NULL || end - at < *size + 2)
        return NULL;
    *start = at;
    return at + *size + 2;
}

/* The arguments of one request, as a list. NULL without an error if it is not whole. */
static PyObject *
read_request(const char **from, const char *end, Py_ssize_t count)
{
    const char *at = *from, *start;
    Py_ssize_t size;
    if ((end - at) / ARGUMENT_BYTES < count)
        return NULL;
    /* First a look whether it is whole, so that nothing is made in vain. */
    for (Py_ssize_t each = 0; each < count; each++) {
        if (at >= end || *at != '$')
            return NULL;
        at = read_argument(at + 1, end, &start, &size);
        if (at == NULL)
            return NULL;
    }
    PyObject *arguments = PyList_New(count);
    if (arguments == NULL)
        return NULL;
    at = *from;
    for (Py_ssize_t each = 0; each < count; each++) {
        at = read_argument(at + 1, end, &start, &size);
        PyObject *argument = PyBytes_FromStringAndSize(start, size);
        if (argument == NULL) {
            Py_DECREF(arguments);
            return NULL;
        }
        PyList_SET_ITEM(arguments, each, argument);
    }
    *from = at;
    return arguments;
}

static PyObject *
pipeline(PyObject *self, PyObject *data)
{
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "what a client sent is bytes");
        return NULL;
    }
    const char *first = PyBytes_AS_STRING(data), *end = first + PyBytes_GET_SIZE(data);
    const char *at = first;
    PyObject *whole = PyList_New(0);
    if (whole == NULL)
        return NULL;
    while (at < end && *at == '*') {
        Py_ssize_t count;
        const char *next = read_number(at + 1, end, &count);
        if (next == NULL)
            break;
        if (count) { /* RESP-2: a request of nothing has no answer */
            PyObject *arguments = read_request(&next, end, count);
            if (arguments == NULL) {
                if (PyErr_Occurred()) {
                    Py_DECREF(whole);
                    return NULL;
                }
                break;
            }
            int failed = PyList_Append(whole, arguments);
            Py_DECREF(arguments);
            if (failed < 0) {
                Py_DECREF(whole);
                return NULL;
            }
        }
        at = next;
    }
    return Py_BuildValue("(Nn)", whole, (Py_ssize_t)(at - first));
}

static PyObject *
run_in(PyObject *self, PyObject *data)
{
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "what a client sent is bytes");
        return NULL;
    }
    const char *first = PyBytes_AS_STRING(data), *end = first + PyBytes_GET_SIZE(data);
    const char *at = first, *name, *body;
    Py_ssize_t name_size, body_size;
    PyObject *names = PyList_New(0), *bodies = PyList_New(0), *last = NULL;
    if (names == NULL || bodies == NULL)
        goto failed;
    while (end - at > START_BYTES
           && (!memcmp(at, UPPER, START_BYTES) || !memcmp(at, LOWER, START_BYTES))) {
        const char *next = read_argument(at + START_BYTES, end, &name, &name_size);
        if (next == NULL || name_size > NAME_BYTES || next >= end || *next != '$')
            break;
        next = read_argument(next + 1, end, &body, &body_size);
        if (next == NULL)
            break;
        /* Often it is the channel of the one before. */
        if (last == NULL || PyBytes_GET_SIZE(last) != name_size
            || memcmp(PyBytes_AS_STRING(last), name, (size_t)name_size)) {
            Py_XSETREF(last, PyBytes_FromStringAndSize(name, name_size));
            if (last == NULL)
                goto failed;
        }
        if (PyList_Append(names, last) < 0)
            goto failed;
        PyObject *made = PyBytes_FromStringAndSize(body, body_size);
        int is_bad = made == NULL || PyList_Append(bodies, made) < 0;
        Py_XDECREF(made);
        if (is_bad)
            goto failed;
        at = next;
    }
    Py_XDECREF(last);
    if (at == first) {
        Py_DECREF(names);
        Py_DECREF(bodies);
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(NNn)", names, bodies, (Py_ssize_t)(at - first));
failed:
    Py_XDECREF(last);
    Py_XDECREF(names);
    Py_XDECREF(bodies);
    return NULL;
}

static PyMethodDef methods[] = {
    {"pipeline", pipeline, METH_O, "Whole requests at the start of the data, and their end."},
    {"run_in", run_in, METH_O, "The PUBLISHes at the start of the data, and their end."},
    {NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_requests", NULL, -1, methods};

PyMODINIT_FUNC
PyInit__requests(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddStringConstant(made, "SOURCE", HEADGATE_SOURCE) < 0)
        Py_CLEAR(made);
    return made;
}
