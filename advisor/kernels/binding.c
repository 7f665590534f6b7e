/* Calls from Python into the machine code of one source of kernels. The table of its kernels is compiled with this file.

The prototypes below belong to Python's stable ABI (3.11 and later), so no header of Python is needed. `Array` is the layout of numpy's
arrays, which numpy keeps for all programs compiled against it; `extent` lets the loader check it before any kernel runs. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct Object { ptrdiff_t references; struct Object *type; } Object;
typedef struct { Object head; char *data; int dimensions; ptrdiff_t *shape, *strides; Object *base, *descr; int flags; } Array;
typedef struct { const char *name; Object *(*call)(Object *, Object *); int flags; const char *doc; } Method;
typedef struct {
    Object head; Object *(*init)(void); ptrdiff_t index; Object *copy;
    const char *name, *doc; ptrdiff_t size; Method *methods; void *slots, *traverse, *clear, *release;
} Module;

extern Object _Py_NoneStruct, _Py_TrueStruct, _Py_FalseStruct, PyLong_Type, PyFloat_Type, PyTuple_Type;
extern Object *PyExc_RuntimeError, *PyExc_ImportError;
Object *PyModule_Create2(Module *, int), *PyImport_ImportModule(const char *), *PyObject_GetAttrString(Object *, const char *);
Object *PyObject_CallFunction(Object *, const char *, ...), *PyObject_CallObject(Object *, Object *), *PyErr_Occurred(void);
Object *PyErr_Format(Object *, const char *, ...), *PyCFunction_NewEx(Method *, Object *, Object *);
Object *PyCapsule_New(void *, const char *, void *), *PyTuple_New(ptrdiff_t), *PyTuple_GetItem(Object *, ptrdiff_t);
Object *PyFloat_FromDouble(double), *PyLong_FromLongLong(long long), *PyBool_FromLong(long);
void *PyCapsule_GetPointer(Object *, const char *), *PyEval_SaveThread(void), PyEval_RestoreThread(void *), PyErr_Clear(void);
void Py_IncRef(Object *), Py_DecRef(Object *);
ptrdiff_t PyTuple_Size(Object *);
Object *PyMapping_GetItemString(Object *, const char *);
int PyTuple_SetItem(Object *, ptrdiff_t, Object *), PyModule_AddObject(Object *, const char *, Object *);
int PyType_IsSubtype(Object *, Object *), PyObject_RichCompareBool(Object *, Object *, int), PyObject_IsTrue(Object *);
double PyFloat_AsDouble(Object *);
long long PyLong_AsLongLong(Object *);

/* What numba calls in place of libm. */
double numba_ldexp(double value, int exponent) { return exponent && value ? ldexp(value, exponent) : value + 0.0; }
double numba_frexp(double value, int *exponent) {
    *exponent = 0;
    return isfinite(value) && value ? frexp(value, exponent) : value;
}

/* Arrays that kernels allocate: this part of numba's runtime, without Python. */
typedef struct { size_t references; void (*destructor)(void *, size_t, void *); void *info, *data; size_t size; void *allocator; } Memory;

void *NRT_Allocate(size_t size) { return malloc(size); }
void NRT_Free(void *data) { free(data); }
void *NRT_MemInfo_alloc_aligned(size_t size, unsigned align) {
    Memory *made = malloc(sizeof(Memory) + size + align);
    if (made) {
        char *data = (char *)(made + 1);
        *made = (Memory){1, NULL, NULL, data + (align ? (align - (uintptr_t)data % align) % align : 0), size, NULL};
    }
    return made;
}
void *NRT_MemInfo_alloc_safe_aligned(size_t size, unsigned align) { return NRT_MemInfo_alloc_aligned(size, align); }
void *NRT_MemInfo_alloc(size_t size) { return NRT_MemInfo_alloc_aligned(size, 16); }
void NRT_MemInfo_call_dtor(Memory *of) { free(of); }

/* `takes`: d, l, b: a float, an int, a bool; F2, L2: an array of floats or ints of two dimensions; parentheses: a tuple.
   `gives`: the same letters, after T where it is a tuple; empty: None. */
typedef struct { const char *name; int (*run)(int64_t *slots); const char *takes, *gives; Object *otherwise; Method method; } Kernel;
static Kernel kernels[]; /* TABLE */
enum { SLOTS = 256, NPY_CARRAY = 0x0501, METH_FASTCALL = 0x0080, METH_O = 0x0008, PY_EQ = 2, NONE_RETURNED = -2 };

static Object *array_type, *floats, *ints, *float_scalar, *int_scalar, *bool_scalar;

static int is_array(Object *given, Object *items, int dimensions) {
    Array *array = (Array *)given;
    return given->type == array_type && array->dimensions == dimensions && (array->flags & NPY_CARRAY) == NPY_CARRAY &&
           (array->descr == items || PyObject_RichCompareBool(array->descr, items, PY_EQ) == 1);
}

/* Put one argument into slots and move on in `takes`; 0 where it has another type. */
static int put(Object *given, const char **takes, int64_t **slots) {
    union { double real; int64_t whole; } slot = {.whole = 0};
    switch (*(*takes)++) {
    case 'd':
        if (given->type != &PyFloat_Type && given->type != float_scalar)
            return 0;
        slot.real = PyFloat_AsDouble(given);
        break;
    case 'l':
        if (given->type != &PyLong_Type && given->type != int_scalar)
            return 0;
        if (given->type == &PyLong_Type)
            slot.whole = PyLong_AsLongLong(given);
        else {
            Object *whole = PyObject_CallFunction(&PyLong_Type, "O", given);
            if (!whole)
                return 0;
            slot.whole = PyLong_AsLongLong(whole);
            Py_DecRef(whole);
        }
        if (slot.whole == -1 && PyErr_Occurred())
            return 0;
        break;
    case 'b':
        if (given != &_Py_TrueStruct && given != &_Py_FalseStruct && given->type != bool_scalar)
            return 0;
        slot.whole = PyObject_IsTrue(given);
        break;
    case '(': {
        if (given->type != &PyTuple_Type)
            return 0;
        ptrdiff_t count = PyTuple_Size(given);
        for (ptrdiff_t i = 0; i < count; i++)
            if (**takes == ')' || !put(PyTuple_GetItem(given, i), takes, slots))
                return 0;
        return *(*takes)++ == ')';
    }
    default: { /* F or L */
        Object *items = (*takes)[-1] == 'F' ? floats : ints;
        int dimensions = *(*takes)++ - '0';
        if (!is_array(given, items, dimensions))
            return 0;
        *(*slots)++ = (int64_t)(intptr_t)((Array *)given)->data;
        for (int i = 0; i < dimensions; i++)
            *(*slots)++ = ((Array *)given)->shape[i];
        return 1;
    }
    }
    *(*slots)++ = slot.whole;
    return 1;
}

static Object *made(char kind, int64_t slot) {
    union { int64_t whole; double real; } of = {.whole = slot};
    return kind == 'd' ? PyFloat_FromDouble(of.real) : kind == 'l' ? PyLong_FromLongLong(slot) : PyBool_FromLong((long)slot);
}

static Object *tuple_of(Object *const *given, ptrdiff_t count) {
    Object *tuple = PyTuple_New(count);
    for (ptrdiff_t i = 0; tuple && i < count; i++) {
        Py_IncRef(given[i]);
        PyTuple_SetItem(tuple, i, given[i]);
    }
    return tuple;
}

static Object *call(Object *self, Object *const *given, ptrdiff_t count) {
    Kernel *kernel = PyCapsule_GetPointer(self, NULL);
    int64_t slots[SLOTS], *end = slots;
    const char *takes = kernel->takes, *gives = kernel->gives;
    ptrdiff_t fit = 0;
    while (fit < count && *takes && put(given[fit], &takes, &end))
        fit++;
    if (fit < count || *takes) { /* other types than those compiled: interpreted */
        PyErr_Clear();
        Object *all = tuple_of(given, count);
        Object *result = all ? PyObject_CallObject(kernel->otherwise, all) : NULL;
        if (all)
            Py_DecRef(all);
        return result;
    }
    void *thread = PyEval_SaveThread();
    int status = kernel->run(slots);
    PyEval_RestoreThread(thread);
    if (status != 0 && status != NONE_RETURNED)
        return PyErr_Format(PyExc_RuntimeError, "kernel %s failed with status %d", kernel->name, status);
    if (*gives == 'T') {
        ptrdiff_t parts = 0;
        while (gives[1 + parts])
            parts++;
        Object *tuple = PyTuple_New(parts);
        for (ptrdiff_t i = 0; tuple && i < parts; i++)
            PyTuple_SetItem(tuple, i, made(gives[1 + i], slots[i]));
        return tuple;
    }
    if (*gives)
        return made(*gives, slots[0]);
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

/* Set what is called with types that were not compiled: a mapping of functions by the kernels' names. */
static Object *set_otherwise(Object *self, Object *functions) {
    for (ptrdiff_t i = 0; kernels[i].name; i++) {
        Object *function = PyMapping_GetItemString(functions, kernels[i].name);
        if (!function)
            return NULL;
        if (kernels[i].otherwise)
            Py_DecRef(kernels[i].otherwise);
        kernels[i].otherwise = function;
    }
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

/* Return address, extents and whether it is accepted of an array of floats of two dimensions, as this file reads them. */
static Object *extent(Object *self, Object *given) {
    int64_t slots[SLOTS] = {0}, *end = slots;
    const char *takes = "F2";
    int fits = put(given, &takes, &end);
    PyErr_Clear();
    return PyObject_CallFunction(&PyTuple_Type, "((LLLi))", (long long)slots[0], (long long)slots[1], (long long)slots[2], fits);
}

static Method methods[] = {{"set_otherwise", set_otherwise, METH_O, NULL}, {"extent", extent, METH_O, NULL}, {NULL}};
static Module module = {.head = {1, NULL}, .name = "kernels", .size = -1, .methods = methods};

static Object *of_numpy(Object *numpy, const char *name) { return numpy ? PyObject_GetAttrString(numpy, name) : NULL; }

__attribute__((visibility("default"))) Object *PyInit_kernels(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt"))
        return PyErr_Format(PyExc_ImportError, "the kernels need a processor of x86-64-v2");
#endif
    Object *made = PyModule_Create2(&module, 3), *numpy = PyImport_ImportModule("numpy");
    array_type = of_numpy(numpy, "ndarray"), float_scalar = of_numpy(numpy, "float64");
    int_scalar = of_numpy(numpy, "int64"), bool_scalar = of_numpy(numpy, "bool_");
    if (!made || !array_type || !float_scalar || !int_scalar || !bool_scalar)
        return NULL;
    floats = PyObject_CallFunction(of_numpy(numpy, "dtype"), "O", float_scalar);
    ints = PyObject_CallFunction(of_numpy(numpy, "dtype"), "O", int_scalar);
    if (!floats || !ints)
        return NULL;
    for (Kernel *kernel = kernels; kernel->name; kernel++) {
        kernel->method = (Method){kernel->name, (Object * (*)(Object *, Object *)) call, METH_FASTCALL, NULL};
        Object *function = PyCFunction_NewEx(&kernel->method, PyCapsule_New(kernel, NULL, NULL), NULL);
        if (!function || PyModule_AddObject(made, kernel->name, function))
            return NULL;
    }
    return made;
}
