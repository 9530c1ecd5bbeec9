/* Quern: status codes, types, memory, logging, threads.  Part of quern.h. */
#ifndef QUERN_BASE_H
#define QUERN_BASE_H

#include <stddef.h>
#include <stdint.h>

/* Marks a public function. libquern.a is built with QN_STATIC, which hides the functions: a shared library that links
 * libquern.a does not export them as its own. */
#if defined(_WIN32)
#define QN_API
#elif defined(QN_STATIC)
#define QN_API __attribute__((visibility("hidden")))
#else
#define QN_API __attribute__((visibility("default")))
#endif

/* Declares TYPE_init(TYPE*), which writes struct_size and the defaults. The function is compiled into the caller, so it
 * passes the size that the caller's struct has: a program may run with a newer library, whose struct is longer. */
#define QN_INIT(type)                                       \
  QN_API void type##_init_sized(type* params, size_t size); \
  static inline void type##_init(type* params) { type##_init_sized(params, sizeof(type)); }

/* Defines TYPE_init(TYPE*) for a struct that the library fills. The function writes struct_size and nothing else. The
 * library later writes no more than struct_size bytes: a struct that is older than the library gets the members it has,
 * and in a newer struct the members that the library does not know become zero. */
#define QN_INIT_OUTPUT(type) \
  static inline void type##_init(type* result) { result->struct_size = sizeof(type); }

#define QN_VERSION_MAJOR 0
#define QN_VERSION_MINOR 2
#define QN_VERSION_PATCH 0
/* The version of this header, as one number like that of qn_version_number(). */
#define QN_VERSION_NUMBER (QN_VERSION_MAJOR * 10000 + QN_VERSION_MINOR * 100 + QN_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup base Status, memory, threads
 *  The functions that a host hands to the library (allocators, logs, `run` of qn_parallel, those of qn_weights) must
 *  return normally. If an exception leaves one of them, std::terminate() ends the process, whatever call of the library
 *  is on the stack. They must not longjmp() past the library either.
 *
 *  Floating point: a call computes in the floating-point mode of the thread that makes it, also on threads of a pool or
 *  of the host. These get their own mode back after each task. The mode is rounding, traps, and what becomes of
 *  denormals: FTZ and DAZ of MXCSR on x86, FZ of FPCR or FPSCR on ARM. So results do not depend on the number of
 *  threads. Flushing denormals to zero is allowed. Rounding other than to nearest makes results less exact than is
 *  documented. Traps must be off.
 *
 *  fork(): no other thread may be in a call of the library meanwhile. The child can use everything but sessions that
 *  have threads of their own (`threads` above 1, `parallel` NULL). These threads exist only in the parent, so the child
 *  must neither run, resize nor release such a session. The same holds for a pthreadpool of the host.
 *
 *  Signals: on x86-64 Linux with AMX, planning an int8 layer asks the system once for the right to use tiles
 *  (arch_prctl, ARCH_REQ_XCOMP_PERM), for all threads and for children of fork(), until exec(). From then on a stack of
 *  sigaltstack() needs getauxval(AT_MINSIGSTKSZ) bytes, about 11 KiB: smaller ones are refused, and where a thread has
 *  one already, the right is. A refusal goes to the log, and AVX-512 serves instead. `QUERN_ISA=avx512vnni` asks for
 *  nothing, which a process needs whose seccomp filter kills at arch_prctl. No tile is in use when a call returns or
 *  calls the host.
 *
 *  dlclose(): libquern can be unloaded once all its objects are released and no call of it is running. Strings that it
 *  returned are gone then. libquern-extra stays loaded (extra.h). A library of the host that has registered kinds of
 *  nodes, an allocator or a log takes them back before it is unloaded (qn_unregister_kinds()).
 *  @{ */

/** Result of every call that can fail. */
typedef enum qn_status {
  QN_OK = 0,
  QN_INVALID_ARGUMENT = 1, /**< An argument is NULL, out of range, or contradicts another. */
  QN_UNSUPPORTED = 2,      /**< The request is valid, but this build or this operator cannot do it. */
  QN_OUT_OF_MEMORY = 3,    /**< The allocator returned NULL, or a limit was reached. */
  QN_IO_ERROR = 4,         /**< A file could not be opened, read, written or mapped. */
  QN_BAD_MODEL = 5,        /**< The content of a model file is damaged or contradicts itself. */
  QN_CANCELLED = 6         /**< qn_session_cancel() stopped the run, or qn_parallel.cancelled the call. */
} qn_status;

/** Short English name of a status, for example "invalid argument"; never NULL. */
QN_API const char* qn_status_string(qn_status status);

/** Message of the last call that failed in the calling thread: one line, without a line feed, that says what is wrong
 *  and where; "" if no call has failed yet. A call that succeeds does not change the message, even if something that it
 *  tried on the way failed. The library owns the text. Copy it to keep it: any later call of the same thread may write
 *  to that memory, even if it writes the same text again. */
QN_API const char* qn_last_message(void);

/** Version of the library at run time as "major.minor.patch". */
QN_API const char* qn_version(void);
/** The same as a number to compare: major * 10000 + minor * 100 + patch; minor and patch stay below 100. */
QN_API int qn_version_number(void);

/** Element types. op.h says which types an operator takes; most operators take only QN_F32. */
typedef enum qn_type {
  QN_F32 = 1,      /**< IEEE 754 binary32. */
  QN_F16 = 2,      /**< IEEE 754 binary16; only for inputs and outputs of a model. */
  QN_S64 = 3,      /**< 64-bit integers. */
  QN_I64 = QN_S64, /**< Older name of QN_S64. */
  QN_S8 = 4,       /**< 8-bit integers; may be quantized, see qn_quantization. */
  QN_U8 = 5,       /**< Unsigned 8-bit integers; may be quantized. */
  QN_S32 = 6,      /**< 32-bit integers; may be quantized, as biases are. */
  QN_BOOL = 7      /**< One byte. The library writes 0 or 1, and reads any byte but 0 as true. */
} qn_type;

/** Size of one element in bytes; 0 for an unknown type. */
QN_API size_t qn_type_size(qn_type type);

/** Name of a type: "f32", "f16", "s64", "s8", "u8", "s32", "bool"; "?" for an unknown one. */
QN_API const char* qn_type_string(qn_type type);

/** Where the elements of a tensor lie. */
typedef enum qn_layout {
  /** Row-major over the shape as written; images are N, H, W, C. */
  QN_LAYOUT_NHWC = 0,
  /** Images as N, ceil(H*W / P), C, P: P successive pixels of one channel lie together; qn_pixel_block() returns P. The
   *  shape is still written N, H, W, C; the four strides are those of an image, of a block of pixels, of a channel (P
   *  elements) and of a pixel (one element). The places after an image's last pixel hold arbitrary values, and an
   *  operator that writes the tensor may write to them. Sparse and depthwise convolution, pooling, elementwise
   *  operators, concat and slice accept this layout; op.h says in which combinations. */
  QN_LAYOUT_PIXEL_BLOCKED = 1
} qn_layout;

/** P of QN_LAYOUT_PIXEL_BLOCKED on this machine: a number from 1 to 64 that does not change while the process runs. */
QN_API size_t qn_pixel_block(void);

/** Most dimensions a tensor can have. */
#define QN_MAX_RANK 8

/** How the integers of a tensor stand for real numbers: real = scale * (element - zero point). A struct of zeros means
 *  that the tensor is not quantized: each element stands for itself.
 *
 *  If the whole tensor has one scale, `scale` and `zero_point` hold it, and the other members are 0 or NULL. If each
 *  channel has its own scale, `scales` holds one for each index of dimension `axis`, and `scale` and `zero_point` are
 *  0. Scales must be finite and above 0, and the element type must be able to hold each zero point. QN_S8, QN_U8 and
 *  QN_S32 can be quantized. The size of this struct is part of the ABI.
 *
 *  The library does not copy the arrays. The caller's arrays must stay valid and unchanged as long as the description,
 *  or anything planned with it, is in use. If the library returned the description, the arrays belong to the object
 *  that was asked, and stay valid as long as that object's description does. */
typedef struct qn_quantization {
  float scale;                /**< Scale of all elements; 0: the tensor is not quantized, or has scales per channel. */
  int32_t zero_point;         /**< The integer that stands for the real number 0. */
  const float* scales;        /**< Per channel: `count` scales; NULL: one for the whole tensor. */
  const int32_t* zero_points; /**< Per channel: `count` zero points; NULL: all are 0. */
  size_t count;               /**< Per channel: the size of dimension `axis`. */
  uint32_t axis;              /**< Per channel: the dimension of the channels. */
  uint32_t reserved;          /**< 0. */
} qn_quantization;

/** Describes everything about a tensor except its address. Begin with qn_tensor_init(), or set all members that you do
 *  not know to 0: later versions may give a meaning to reserved words, with 0 as the default. The size of this struct
 *  is part of the ABI. */
typedef struct qn_tensor {
  qn_type type;                 /**< Type of every element. */
  qn_layout layout;             /**< Order of the elements in memory; the default is QN_LAYOUT_NHWC. */
  uint32_t rank;                /**< 0 (a scalar) to QN_MAX_RANK; 4 in the pixel-blocked layout. */
  size_t shape[QN_MAX_RANK];    /**< Outermost first. A tensor with a dimension of 0 has no elements, and may have any
                                     address. */
  size_t stride[QN_MAX_RANK];   /**< In bytes, outermost first; all 0 means dense. The innermost stride must be the
                                     element size. A slice of a larger tensor has larger outer strides.
                                     QN_LAYOUT_PIXEL_BLOCKED says what its strides mean; there, a tensor that is a part
                                     of another's channels has a larger stride[1]. */
  qn_quantization quantization; /**< How integers stand for real numbers; all 0 if they do not. */
  size_t reserved[4];           /**< 0. */
} qn_tensor;

/** Fills in the description of a dense row-major tensor that is not quantized. Fails for a rank above QN_MAX_RANK, an
 *  unknown type, or a size that overflows size_t. */
QN_API qn_status qn_tensor_init(qn_tensor* tensor, qn_type type, uint32_t rank, const size_t* shape);

/** Number of bytes from the first element to the end of the last one, with all gaps that strides leave between them; 0
 *  if it has no elements or the description is invalid. */
QN_API size_t qn_tensor_bytes(const qn_tensor* tensor);

/** Where the library gets its memory. Both functions may be called from any thread. */
typedef struct qn_allocator {
  void* context; /**< First argument of both functions. */
  /** Returns `size` bytes at an address that is a multiple of `alignment` (a power of two), or NULL. */
  void* (*allocate)(void* context, size_t size, size_t alignment);
  /** Frees a block that allocate returned; `size` is the size that allocate was called with. `pointer` is never
   *  NULL. */
  void (*release)(void* context, void* pointer, size_t size);
  void* reserved[2]; /**< NULL. */
} qn_allocator;

/** Replaces the allocator of the process; NULL restores the default. Call this before any other function of the
 *  library, while no object of the library exists. The library copies the struct. Not thread-safe. */
QN_API qn_status qn_set_allocator(const qn_allocator* allocator);

/** How serious a log line is. */
typedef enum qn_log_level {
  QN_LOG_ERROR = 0,   /**< Something failed. */
  QN_LOG_WARNING = 1, /**< Something works, but not as well as it could. */
  QN_LOG_INFO = 2     /**< What the library decided. */
} qn_log_level;

/** Receives one line without a line feed. May be called from any thread. */
typedef void (*qn_log_fn)(void* context, qn_log_level level, const char* line);

/** Sets the function that receives log lines; NULL (the default): none. Not thread-safe; call it before other functions
 *  of the library. */
QN_API void qn_set_log(qn_log_fn log, void* context);

/** A host's way to run tasks. `run` must call task(arg, i) once for every i in 0 .. count-1, on any threads and in any
 *  order, and must return only after all these calls have returned. Set the whole struct to zeros first, because later
 *  versions may give a meaning to reserved words. */
typedef struct qn_parallel {
  void* context; /**< First argument of both functions. */
  /** Runs the tasks. */
  void (*run)(void* context, void (*task)(void* arg, size_t index), void* arg, size_t count);
  /** How many tasks can run at the same time, which is the number of threads, including the calling thread if it runs
   *  tasks, too. 0: the host does not know. */
  size_t threads;
  /** Optional: returns whether work is to stop. Calls that take a qn_parallel ask at least every 100 ms, from any
   *  thread that runs tasks. If the answer is not 0, the call returns QN_CANCELLED and leaves arbitrary values in its
   *  outputs. From then on the answer must not be 0 until the call has returned. */
  int (*cancelled)(void* context);
  size_t reserved[3]; /**< 0. */
} qn_parallel;

struct pthreadpool;

/** Fills `parallel` so that tasks run on `pool`, a pthreadpool_t, and sets `threads` to the pool's number of threads.
 *  The pool must live as long as `parallel` is used. As in pthreadpool itself, NULL means a pool of one thread. */
QN_API qn_status qn_parallel_from_pthreadpool(struct pthreadpool* pool, qn_parallel* parallel);

/** Name of the highest instruction set level from which kernels are chosen on this machine; the environment variable
 *  QUERN_ISA can lower it: "ref", "sse41", "avx2", "avx512", "neon", "neonfma". The level is detected even where /proc
 *  or /sys is missing. Sizes of caches are guessed then, which the log says (QN_LOG_WARNING). */
QN_API const char* qn_cpu_level(void);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
