/* Buffers for classes written in Python. Python 3.12 has __buffer__ for that; before, and for
 * classes that mypyc compiles, only C can say it. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
    PyObject *octets = PyObject_CallMethod(self, "view", NULL);
    if (octets == NULL) {
        view->obj = NULL;
        return -1;
    }
    /* The view is the exporter: it holds the octets as long as anybody looks at them. */
    int result = PyObject_GetBuffer(octets, view, flags);
    Py_DECREF(octets);
    return result;
}

static PyBufferProcs procs = {get_buffer, NULL};

static PyObject *export_(PyObject *module, PyObject *type) {
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "a class is needed");
        return NULL;
    }
    ((PyTypeObject *)type)->tp_as_buffer = &procs;
    PyType_Modified((PyTypeObject *)type);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"export", export_, METH_O, "Let instances of a class export the buffer of their view()."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "elea._buffer", "Buffers for classes written in Python.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__buffer(void) { return PyModule_Create(&definition); }
