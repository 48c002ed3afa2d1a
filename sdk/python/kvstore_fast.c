/* SPDX-License-Identifier: Apache-2.0 */
/* kvstore_fast.c - the shortest way from push, pull and pushpull of Python to the library, for contiguous
 * NumPy arrays. The package works without it and does the same in ctypes.
 *
 * Whatever is not simple (labels, row-sparse values, DLPack, nested lists, wrong arguments) is answered
 * with NOT_SIMPLE, before anything is done: store.py then goes its own way and finds the words. The
 * library is not linked: `bind` is given the addresses of the functions in the one that is loaded. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <kvstore/kvstore.h>

#include <limits.h>
#include <string.h>

#define MAX_ARRAYS 256
#define NOT_SIMPLE 1

typedef kvs_status_t (*push_t)(kvs_store_t *, const kvs_key_t *, size_t, const kvs_arrays_t *,
                               const kvs_call_t *);
typedef kvs_status_t (*pushpull_t)(kvs_store_t *, const kvs_key_t *, size_t, const kvs_arrays_t *,
                                   const kvs_arrays_t *, const kvs_call_t *);

/* numpy.ndarray: its buffers are had without running code of Python's. */
static PyObject *array_type;
static push_t store_push, store_pull;
static pushpull_t store_pushpull;

/* The arrays of a call: tensors that view buffers. */
typedef struct arrays {
    size_t n;
    Py_buffer views[MAX_ARRAYS];
    kvs_tensor_t tensors[MAX_ARRAYS];
} arrays_t;

/* ---- Arguments, each 1 if it is simple --------------------------------------------------------- */

static int take_key(PyObject *object, kvs_key_t *ret_key)
{
    if (PyLong_CheckExact(object)) {
        int overflow;

        *ret_key = kvs_key_int(PyLong_AsLongLongAndOverflow(object, &overflow));
        return overflow == 0;
    }
    if (PyUnicode_CheckExact(object)) {
        Py_ssize_t n_bytes;
        const char *text = PyUnicode_AsUTF8AndSize(object, &n_bytes); /* kept by the str */

        if (text == NULL) {
            PyErr_Clear();
            return 0;
        }
        *ret_key = kvs_key_str(text);
        return n_bytes <= KVS_KEY_MAX_BYTES && strlen(text) == (size_t)n_bytes;
    }
    return 0;
}

static int take_dtype(const Py_buffer *view, kvs_dtype_t *ret_dtype)
{
    int code;

    if (view->format == NULL || view->format[0] == '\0' || view->format[1] != '\0') {
        return 0;
    }
    switch (view->format[0]) {
    case 'f':
    case 'd':
    case 'e':
        code = KVS_CODE_FLOAT;
        break;
    case 'b':
    case 'i':
    case 'l':
    case 'q':
        code = KVS_CODE_INT;
        break;
    case 'B':
        code = KVS_CODE_UINT;
        break;
    default:
        return 0;
    }
    *ret_dtype = (kvs_dtype_t){(uint8_t)code, (uint8_t)(8 * view->itemsize), 1};
    return 1;
}

/* The next array; it is released with the others, also if this fails. */
static int take_array(PyObject *object, int writes, arrays_t *arrays)
{
    Py_buffer *view = &arrays->views[arrays->n];
    kvs_tensor_t *tensor = &arrays->tensors[arrays->n];
    kvs_dtype_t dtype;

    if (arrays->n == MAX_ARRAYS || (PyObject *)Py_TYPE(object) != array_type) {
        return 0;
    }
    if (PyObject_GetBuffer(
            object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writes ? PyBUF_WRITABLE : 0)) != 0) {
        PyErr_Clear();
        return 0;
    }
    arrays->n++;
    if (!take_dtype(view, &dtype) || (uintptr_t)view->buf % (size_t)view->itemsize != 0) {
        return 0;
    }
    *tensor = (kvs_tensor_t){
        .data = view->buf,
        .device = {KVS_DEVICE_CPU, 0},
        .ndim = view->ndim,
        .dtype = dtype,
        .shape = (const int64_t *)view->shape, /* Py_ssize_t: see the assertion below */
    };
    return 1;
}

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "shapes are handed on as they are");

static int is_list(PyObject *object)
{
    return PyList_CheckExact(object) || PyTuple_CheckExact(object);
}

/* One array or a list of arrays, which are held by their buffers. */
static int take_arrays(PyObject *object, int writes, arrays_t *arrays)
{
    if (!is_list(object)) {
        return take_array(object, writes, arrays);
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); i++) {
        if (!take_array(PySequence_Fast_GET_ITEM(object, i), writes, arrays)) {
            return 0;
        }
    }
    return PySequence_Fast_GET_SIZE(object) > 0;
}

/* One key, or a list of keys. What is returned holds them, as their text is used while other threads may
 * change the list; NULL: not simple. */
static PyObject *take_keys(PyObject *object, kvs_key_t *keys, size_t *ret_n)
{
    PyObject *held;

    if (!is_list(object)) {
        *ret_n = 1;
        if (!take_key(object, keys)) {
            return NULL;
        }
        Py_INCREF(object);
        return object;
    }
    held = PySequence_Tuple(object);
    if (held == NULL) {
        PyErr_Clear();
        return NULL;
    }
    *ret_n = (size_t)PyTuple_GET_SIZE(held);
    for (size_t i = 0; i < *ret_n; i++) {
        if (*ret_n > MAX_ARRAYS || !take_key(PyTuple_GET_ITEM(held, (Py_ssize_t)i), &keys[i])) {
            Py_DECREF(held);
            return NULL;
        }
    }
    return held;
}

/* Lists of keys: one array a key, in a list as well. */
static int fits(PyObject *key, PyObject *values, size_t n_keys, const arrays_t *arrays)
{
    return !is_list(key) || (is_list(values) && arrays->n == n_keys);
}

static int take_priority(PyObject *object, kvs_call_t *call)
{
    long priority;

    if (!PyLong_CheckExact(object)) {
        return 0;
    }
    priority = PyLong_AsLong(object);
    if (priority == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    *call = (kvs_call_t)KVS_CALL_INIT;
    call->priority = (int32_t)priority;
    return priority >= INT32_MIN && priority <= INT32_MAX;
}

static void release(arrays_t *arrays)
{
    for (size_t i = 0; i < arrays->n; i++) {
        PyBuffer_Release(&arrays->views[i]);
    }
}

/* ---- The functions -------------------------------------------------------------------------------- */

static PyObject *one_way(push_t verb, int writes, PyObject *const *args, Py_ssize_t n_args)
{
    kvs_key_t keys[MAX_ARRAYS];
    arrays_t arrays;
    kvs_call_t call;
    PyObject *held = NULL;
    size_t n_keys;
    long status = NOT_SIMPLE;

    if (n_args != 4) {
        PyErr_SetString(PyExc_TypeError, "store, key, arrays, priority");
        return NULL;
    }
    arrays.n = 0;
    if (PyLong_CheckExact(args[0]) && (held = take_keys(args[1], keys, &n_keys)) != NULL &&
        take_arrays(args[2], writes, &arrays) && fits(args[1], args[2], n_keys, &arrays) &&
        take_priority(args[3], &call)) {
        kvs_store_t *store = PyLong_AsVoidPtr(args[0]);
        kvs_arrays_t list = kvs_arrays(arrays.tensors, arrays.n);

        PyThreadState *state = PyEval_SaveThread();

        status = verb(store, keys, n_keys, &list, call.priority == 0 ? NULL : &call);
        PyEval_RestoreThread(state);
    }
    release(&arrays);
    Py_XDECREF(held);
    return PyLong_FromLong(status);
}

static PyObject *fast_push(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    return one_way(store_push, 0, args, n_args);
}

static PyObject *fast_pull(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    return one_way(store_pull, 1, args, n_args);
}

static PyObject *fast_pushpull(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    kvs_key_t keys[MAX_ARRAYS];
    arrays_t values, outs;
    kvs_call_t call;
    PyObject *held = NULL;
    size_t n_keys;
    long status = NOT_SIMPLE;
    int in_place;

    (void)module;
    if (n_args != 5) {
        PyErr_SetString(PyExc_TypeError, "store, key, values, outs or None, priority");
        return NULL;
    }
    values.n = outs.n = 0;
    in_place = args[3] == Py_None;
    if (PyLong_CheckExact(args[0]) && (held = take_keys(args[1], keys, &n_keys)) != NULL &&
        take_arrays(args[2], in_place, &values) && fits(args[1], args[2], n_keys, &values) &&
        (in_place || (take_arrays(args[3], 1, &outs) && fits(args[1], args[3], n_keys, &outs))) &&
        take_priority(args[4], &call)) {
        kvs_store_t *store = PyLong_AsVoidPtr(args[0]);
        kvs_arrays_t value_list = kvs_arrays(values.tensors, values.n);
        kvs_arrays_t out_list = kvs_arrays(outs.tensors, outs.n);

        PyThreadState *state = PyEval_SaveThread();

        status = store_pushpull(store, keys, n_keys, &value_list, in_place ? NULL : &out_list,
                                call.priority == 0 ? NULL : &call);
        PyEval_RestoreThread(state);
    }
    release(&values);
    release(&outs);
    Py_XDECREF(held);
    return PyLong_FromLong(status);
}

static PyObject *bind(PyObject *module, PyObject *args)
{
    PyObject *type, *push, *pull, *pushpull;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyType_Type, &type, &PyLong_Type, &push, &PyLong_Type,
                          &pull, &PyLong_Type, &pushpull)) {
        return NULL;
    }
    store_push = (push_t)PyLong_AsVoidPtr(push);
    store_pull = (push_t)PyLong_AsVoidPtr(pull);
    store_pushpull = (pushpull_t)PyLong_AsVoidPtr(pushpull);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_INCREF(type);
    Py_XDECREF(array_type);
    array_type = type;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS,
     "numpy.ndarray, and the addresses of the library's functions, in the order of VERBS."},
    {"push", (PyCFunction)(void (*)(void))fast_push, METH_FASTCALL, "A status, or 1: not simple."},
    {"pull", (PyCFunction)(void (*)(void))fast_pull, METH_FASTCALL, "A status, or 1: not simple."},
    {"pushpull", (PyCFunction)(void (*)(void))fast_pushpull, METH_FASTCALL,
     "A status, or 1: not simple."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "kvstore_fast", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_kvstore_fast(void);
PyMODINIT_FUNC PyInit_kvstore_fast(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *verbs = Py_BuildValue("(sss)", "push", "pull", "pushpull");

    if (module == NULL || verbs == NULL || PyModule_AddObject(module, "VERBS", verbs) != 0) {
        Py_XDECREF(verbs);
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
