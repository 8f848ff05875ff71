/* Plain requests in what was read. Whatever is not plain and whole is NULL, and `RequestParser._next`
 * takes it, which alone is exact about errors and limits. */

#ifndef HEADGATE_REQUESTS_H
#define HEADGATE_REQUESTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#define ARGUMENT_BYTES 6 /* the shortest: $0, two line ends */
#define SIZE_DIGITS_MOST 9
#define NAME_BYTES 4095 /* the longest name of a channel, as in publish_runs.py */
#define PUBLISH_UPPER "*3\r\n$7\r\nPUBLISH\r\n$"
#define PUBLISH_LOWER "*3\r\n$7\r\npublish\r\n$"
#define PUBLISH_BYTES ((Py_ssize_t)sizeof(PUBLISH_UPPER) - 1)

/* The number behind a mark, and its line end: digits as they are usually written. Return where the
 * next line starts, or NULL if that is anything else or not there. */
static inline const char *
read_number(const char *at, const char *end, Py_ssize_t *number)
{
    const char *first = at;
    Py_ssize_t value = 0;
    while (at < end && *at >= '0' && *at <= '9') {
        if (at - first == SIZE_DIGITS_MOST)
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

/* Whether a PUBLISH starts here, spelled as nearly all clients do. */
static inline int
is_publish(const char *at, const char *end)
{
    return end - at > PUBLISH_BYTES
           && (!memcmp(at, PUBLISH_UPPER, (size_t)PUBLISH_BYTES)
               || !memcmp(at, PUBLISH_LOWER, (size_t)PUBLISH_BYTES));
}

/* A PUBLISH: its channel and its body. Return what is behind it. */
static inline const char *
read_publish(const char *at, const char *end, const char **name, Py_ssize_t *name_size,
             const char **body, Py_ssize_t *body_size)
{
    if (!is_publish(at, end))
        return NULL;
    at = read_argument(at + PUBLISH_BYTES, end, name, name_size);
    if (at == NULL || *name_size > NAME_BYTES || at >= end || *at != '$')
        return NULL;
    return read_argument(at + 1, end, body, body_size);
}

/* The arguments of one request, as a list. NULL without an error if it is not whole. */
static inline PyObject *
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

#endif
