/* Quern: status codes, types, memory, logging, threads.  Part of quern.h. */
#ifndef QUERN_BASE_H
#define QUERN_BASE_H

#include <stddef.h>
#include <stdint.h>

/* Public functions. QN_STATIC, which libquern.a is built with, hides them: a shared library that links it does not
 * export them as its own. */
#if defined(_WIN32)
#define QN_API
#elif defined(QN_STATIC)
#define QN_API __attribute__((visibility("hidden")))
#else
#define QN_API __attribute__((visibility("default")))
#endif

/* Declares TYPE_init(TYPE*), which writes struct_size and the defaults. It lies in the caller's code, because a program
 * may run with a newer library than it was built for, whose struct is longer. */
#define QN_INIT(type)                                       \
  QN_API void type##_init_sized(type* params, size_t size); \
  static inline void type##_init(type* params) { type##_init_sized(params, sizeof(type)); }

/* Defines TYPE_init(TYPE*) for a struct that the library fills: it writes struct_size, and nothing more. The library
 * then writes no more than that: to an older caller's struct what it has, to a newer caller's zeros behind what it
 * knows. */
#define QN_INIT_OUTPUT(type) \
  static inline void type##_init(type* result) { result->struct_size = sizeof(type); }

#define QN_VERSION_MAJOR 0
#define QN_VERSION_MINOR 2
#define QN_VERSION_PATCH 0
/* As qn_version_number(), of this header. */
#define QN_VERSION_NUMBER (QN_VERSION_MAJOR * 10000 + QN_VERSION_MINOR * 100 + QN_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup base Status, memory, threads
 *  Functions that a host hands over (allocators, logs, `run` of qn_parallel, those of qn_weights) must return: an
 *  exception that leaves one ends the process, by std::terminate(), whatever call of the library is on the stack.
 *  longjmp() past the library is not allowed either.
 *  @{ */

/** Result of every call that can fail. */
typedef enum qn_status {
  QN_OK = 0,
  QN_INVALID_ARGUMENT = 1, /**< An argument is NULL, out of range, or contradicts another. */
  QN_UNSUPPORTED = 2,      /**< Valid, but this build or this operator does not do it. */
  QN_OUT_OF_MEMORY = 3,    /**< The allocator returned NULL, or a limit was reached. */
  QN_IO_ERROR = 4,         /**< A file could not be opened, read, written or mapped. */
  QN_BAD_MODEL = 5,        /**< The content of a model file is damaged or contradicts itself. */
  QN_CANCELLED = 6         /**< qn_session_cancel() stopped the run. */
} qn_status;

/** Short English name of a status, for example "invalid argument"; never NULL. */
QN_API const char* qn_status_string(qn_status status);

/** What the last failing call of the calling thread had to say: one line that names what is wrong
 *  and where, without a line feed; "" when nothing failed yet. Calls that succeed leave it as it is, whatever they
 *  tried on the way. The text is the library's; copy it to keep it: any later call of the same thread may write
 *  there, if only the same text again. */
QN_API const char* qn_last_message(void);

/** Version of the library at run time as "major.minor.patch". */
QN_API const char* qn_version(void);
/** The same as a number to compare: major * 10000 + minor * 100 + patch; minor and patch stay below 100. */
QN_API int qn_version_number(void);

/** Element types. What an operator takes, op.h says; most take QN_F32 alone. */
typedef enum qn_type {
  QN_F32 = 1,      /**< IEEE 754 binary32. */
  QN_F16 = 2,      /**< IEEE 754 binary16; at the border of a model only. */
  QN_S64 = 3,      /**< 64-bit integers. */
  QN_I64 = QN_S64, /**< The same under its first name. */
  QN_S8 = 4,       /**< 8-bit integers; may be quantized, see qn_quantization. */
  QN_U8 = 5,       /**< 8-bit integers from 0 on; may be quantized. */
  QN_S32 = 6,      /**< 32-bit integers; may be quantized, as biases are. */
  QN_BOOL = 7      /**< One byte: 0 or 1. */
} qn_type;

/** Size of one element in bytes; 0 for an unknown type. */
QN_API size_t qn_type_size(qn_type type);

/** Name of a type: "f32", "f16", "s64", "s8", "u8", "s32", "bool"; "?" for an unknown one. */
QN_API const char* qn_type_string(qn_type type);

/** Where the elements of a tensor lie. */
typedef enum qn_layout {
  /** Row-major over the shape as written; images are N, H, W, C. */
  QN_LAYOUT_NHWC = 0,
  /** Images as N, ceil(H*W / P), C, P: P successive pixels of one channel lie together, P being
   *  qn_pixel_block(). The shape still says N, H, W, C; the strides are those of an image, of a block of
   *  pixels, of a channel (P elements) and of a pixel (one element). The places behind an image's last
   *  pixel hold any values; operators that write the tensor may write them. Sparse and depthwise
   *  convolution, pooling, elementwise operators, concat and slice take it; op.h says which
   *  combinations. */
  QN_LAYOUT_PIXEL_BLOCKED = 1
} qn_layout;

/** P of QN_LAYOUT_PIXEL_BLOCKED on this machine: 1 to 64, the same as long as the process runs. */
QN_API size_t qn_pixel_block(void);

/** Most dimensions a tensor can have. */
#define QN_MAX_RANK 8

/** How the integers of a tensor stand for real numbers: real = scale * (element - zero point). All 0: they do not, the
 *  elements are what they are.
 *
 *  One scale for the whole tensor is `scale`, with `zero_point`; the rest is 0 and NULL. One scale per channel is
 *  `scales`, one for each index of dimension `axis`; `scale` and `zero_point` are 0. Scales are finite and above 0,
 *  zero points numbers that the type has. QN_S8, QN_U8 and QN_S32 can be quantized. The size of this struct is part of
 *  the ABI.
 *
 *  The library does not copy the arrays: those of the caller must stay valid and unchanged as long as the description,
 *  or what was planned with it, is in use. Those of a description that the library gave belong to the object that was
 *  asked, and are valid as long as its description is. */
typedef struct qn_quantization {
  float scale;                /**< Of all elements; 0: not quantized, or per channel. */
  int32_t zero_point;         /**< The element that stands for 0. */
  const float* scales;        /**< Per channel: `count` scales; NULL: one for the whole tensor. */
  const int32_t* zero_points; /**< Per channel: `count` of them; NULL: all 0. */
  size_t count;               /**< Per channel: the size of dimension `axis`. */
  uint32_t axis;              /**< Per channel: the dimension of the channels. */
  uint32_t reserved;          /**< 0. */
} qn_quantization;

/** Describes a tensor: everything but the address. Set what you do not know to 0, or begin with qn_tensor_init(): the
 *  size of this struct is part of the ABI, and reserved words may get a meaning for which 0 is the default. */
typedef struct qn_tensor {
  qn_type type;                 /**< Of every element. */
  qn_layout layout;             /**< Of the elements; the default is QN_LAYOUT_NHWC. */
  uint32_t rank;                /**< 0 (a scalar) to QN_MAX_RANK; 4 in the pixel-blocked layout. */
  size_t shape[QN_MAX_RANK];    /**< Outermost first. No dimension may be 0. */
  size_t stride[QN_MAX_RANK];   /**< In bytes, outermost first; all 0 means dense. The innermost stride must be
                                   the element size. A slice of a larger tensor has larger outer strides. In the
                                   pixel-blocked layout see there; a part of the channels has a larger stride[1]. */
  qn_quantization quantization; /**< Of integers that stand for real numbers; else 0. */
  size_t reserved[4];           /**< 0. */
} qn_tensor;

/** Fills a dense row-major description that is not quantized. Fails for a rank above QN_MAX_RANK, a zero dimension, an
 *  unknown type, or a size that overflows size_t. */
QN_API qn_status qn_tensor_init(qn_tensor* tensor, qn_type type, uint32_t rank, const size_t* shape);

/** Bytes from the first to one past the last element, strides included; 0 if the description is invalid. */
QN_API size_t qn_tensor_bytes(const qn_tensor* tensor);

/** Where the library gets its memory. Both functions may be called from any thread. */
typedef struct qn_allocator {
  void* context; /**< Handed to both functions. */
  /** Returns `size` bytes at an address that is a multiple of `alignment` (a power of two), or NULL. */
  void* (*allocate)(void* context, size_t size, size_t alignment);
  /** Takes back what allocate gave; `size` is the size asked for then. `pointer` is never NULL. */
  void (*release)(void* context, void* pointer, size_t size);
  void* reserved[2]; /**< NULL. */
} qn_allocator;

/** Replaces the allocator of the process; NULL restores the default. Call it before any other call and
 *  while no object of the library exists. The struct is copied. Not thread-safe. */
QN_API qn_status qn_set_allocator(const qn_allocator* allocator);

/** How grave a log line is. */
typedef enum qn_log_level {
  QN_LOG_ERROR = 0,   /**< Something failed. */
  QN_LOG_WARNING = 1, /**< Something works, but not as well as it could. */
  QN_LOG_INFO = 2     /**< What the library decided. */
} qn_log_level;

/** Receives one line without a line feed. May be called from any thread. */
typedef void (*qn_log_fn)(void* context, qn_log_level level, const char* line);

/** Sets who gets log lines; NULL (the default) means nobody. Not thread-safe; call it first. */
QN_API void qn_set_log(qn_log_fn log, void* context);

/** A host's way to run tasks. `run` must call task(arg, i) once for every i in 0 .. count-1, on any
 *  threads and in any order, and return when all have returned. Initialise it to zeros: reserved words may get a
 *  meaning. */
typedef struct qn_parallel {
  void* context; /**< Handed to `run`. */
  /** Runs the tasks. */
  void (*run)(void* context, void (*task)(void* arg, size_t index), void* arg, size_t count);
  /** How many tasks run at a time: threads, the caller's among them if it works, too. 0: the host does not know. */
  size_t threads;
  size_t reserved[4]; /**< 0. */
} qn_parallel;

struct pthreadpool;

/** Fills `parallel` with an adapter that runs on a pthreadpool_t, which must outlive its use, and with its number of
 *  threads. NULL is a pool of one thread, as in pthreadpool itself. */
QN_API qn_status qn_parallel_from_pthreadpool(struct pthreadpool* pool, qn_parallel* parallel);

/** Name of the highest instruction set level that kernels are chosen from on this machine, after
 *  the environment variable QUERN_ISA: "ref", "sse41", "avx2", "avx512", "neon", "neonfma". */
QN_API const char* qn_cpu_level(void);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
