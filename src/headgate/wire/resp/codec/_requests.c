/* What a Redis client sends, taken apart, compiled: the twins of `pure_pipeline` in requests.py and
 * of `pure_run_in` in publish_runs.py. Both take what is plain and whole and stop at everything else, which
 * is then taken by `RequestParser._next`: that one alone is exact about errors and limits.
 *
 * Nothing is made for what is announced and not there: an argument costs what it has in bytes. The
 * data are bytes, which nobody changes, and nothing of Python's is called.
 */

#include "_requests.h"

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
    const char *next;
    while ((next = read_publish(at, end, &name, &name_size, &body, &body_size)) != NULL) {
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
