/* Quern: models.  Part of quern.h.
 *
 *     qn_model_load_file("net.qn", NULL, &model);        shared by any number of sessions
 *     qn_session_create(model, &options, &session);      plans for the model's own input sizes
 *     qn_session_resize(session, 0, 4, shape);           optional
 *     qn_session_run(session, inputs);                   then qn_session_output(session, 0, &data) */
#ifndef QUERN_GRAPH_H
#define QUERN_GRAPH_H

#include "base.h"
#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup graph Models
 *  A model's inputs and outputs keep the names, layout and type of the source it was converted from.
 *  @{ */

/** A loaded model: graph and weights. Immutable; shared between threads and sessions. */
typedef struct qn_model qn_model;
/** One use of a model: sizes, plans, arena. A session runs in one thread at a time; use several for more. */
typedef struct qn_session qn_session;
/** Memory for activations and workspace of sessions that never run at the same time. */
typedef struct qn_arena qn_arena;

/** How a model is loaded. */
typedef struct qn_model_options {
  size_t struct_size;      /**< Written by the init function. */
  qn_weights_cache* cache; /**< Where packed weights go; NULL: the model's own. */
} qn_model_options;

/** Defaults: cache NULL. */
QN_INIT(qn_model_options)

/** Maps a .qn file. The file must not change while the model lives. options may be NULL. */
QN_API qn_status qn_model_load_file(const char* path, const qn_model_options* options, qn_model** model);

/** For qn_model_load_fd(): up to the end of the file. */
#define QN_TO_END ((uint64_t)-1)

/** Maps `length` bytes from byte `offset` on, which hold a .qn file and nothing else: one that lies uncompressed in an
 *  Android package, for example, whose descriptor, offset and length AAsset_openFileDescriptor64() tells. `fd` is open
 *  for reading and stays the caller's, who may close it afterwards; where it stands in the file neither matters nor
 *  changes. `length` may be QN_TO_END. These bytes must not change while the model lives, nor the file become shorter.
 *  Where `offset` is no multiple of 64, they are copied to memory, all at once; packages keep the place of a file a
 *  multiple of 4, unless told otherwise. options may be NULL. A range that the file does not have is
 *  QN_INVALID_ARGUMENT, what is no regular file, or not open for reading, QN_IO_ERROR. */
QN_API qn_status qn_model_load_fd(int fd, uint64_t offset, uint64_t length, const qn_model_options* options,
                                  qn_model** model);
/** Uses a .qn image in memory, which must stay valid and unchanged until the model and its sessions are released.
 *  `data` must be aligned to 64 bytes, or the weights are copied. */
QN_API qn_status qn_model_load_memory(const void* data, size_t size, const qn_model_options* options, qn_model** model);
/** Gives up the caller's reference; sessions keep the model alive. NULL is allowed. */
QN_API void qn_model_release(qn_model* model);

/** How an image becomes an input tensor: decode, resize, crop, order channels, (x - mean) * scale. */
typedef struct qn_preprocessing {
  size_t struct_size; /**< Written by the init function. */
  int present;        /**< Zero: the model says nothing, and the rest is zero. */
  int bgr;            /**< Non-zero: blue first. */
  float mean[4];      /**< Per channel in the tensor's order, on pixel values 0..255. */
  float scale[4];     /**< Per channel, the same. */
  uint32_t resize;    /**< Shorter side in pixels; 0: leave it. */
  uint32_t crop[2];   /**< Sides of successive centre crops (square); 0: none. */
} qn_preprocessing;

/** Makes the struct ready to be filled. */
QN_INIT_OUTPUT(qn_preprocessing)

/** An input or output of a model, as the user sees it. */
typedef struct qn_port {
  size_t struct_size; /**< Written by the init function. */
  const char* name;   /**< Lives as long as the model. */
  qn_tensor tensor;   /**< Dense, in the source's layout. */
} qn_port;

/** Makes the struct ready to be filled. */
QN_INIT_OUTPUT(qn_port)

/** Number of inputs. */
QN_API size_t qn_model_input_count(const qn_model* model);
/** Number of outputs. */
QN_API size_t qn_model_output_count(const qn_model* model);
/** Describes input `index`, with the size it has in the file. `port` must be initialised, here and below. */
QN_API qn_status qn_model_input(const qn_model* model, size_t index, qn_port* port);
/** Describes output `index`, with the size that follows from the inputs'. */
QN_API qn_status qn_model_output(const qn_model* model, size_t index, qn_port* port);
/** Says how images become input `index`. `preprocessing` must be initialised. */
QN_API qn_status qn_model_preprocessing(const qn_model* model, size_t index, qn_preprocessing* preprocessing);

/** Makes an arena, for qn_session_options.arena of any number of sessions, of one model or several. All that a session
 *  computes lies there, its outputs, too, so only one of them may be made, resized, run or asked for an output at a
 *  time: a run during another's, or growth during a run, is QN_INVALID_ARGUMENT. An output that is not bound can be had
 *  until another session of the arena runs, or the arena grows; as an input of another one it must be copied or bound.
 *  Sessions of one model, with the same sizes, number of tasks and algorithm, and without tuning, share their tables as
 *  well, whatever arena they have.
 *  @param memory  NULL: the arena takes what it needs from the library's allocator. It grows when a session is made or
 *                 resized that needs more than all before, and keeps that until it is released. Otherwise memory of the
 *                 caller's, aligned to 64, which stays valid until the arena and its sessions are released, and which
 *                 nobody else uses while one of them runs; between runs it may hold anything, at the cost of outputs
 *                 that lie there. Sessions that need more are refused with QN_OUT_OF_MEMORY. How much they need,
 *                 qn_session_memory() of one without an arena tells, or qn_arena_bytes() of an arena that grows.
 *  @param size    Bytes of `memory`; without, how many bytes to begin with. */
QN_API qn_status qn_arena_create(void* memory, size_t size, qn_arena** arena);
/** Gives up the caller's reference; sessions keep the arena alive. NULL is allowed. */
QN_API void qn_arena_release(qn_arena* arena);
/** Bytes the arena has; 0 for NULL. Thread-safe. */
QN_API size_t qn_arena_bytes(const qn_arena* arena);

/** For qn_session_options.threads: as many as `parallel` has, and 1 without. */
#define QN_THREADS_DEFAULT ((size_t)-1)

/** How a session runs. */
typedef struct qn_session_options {
  size_t struct_size; /**< Written by the init function. */
  size_t threads;     /**< How many tasks run at a time, at most 1024; or 0: as many as `parallel` has threads, without
                           it one for each fast core: those of all clusters but the slowest, where others are faster. 1
                           runs on the caller, even with `parallel`. */
  const qn_parallel* parallel; /**< A host's own threads; copied. If it does not say how many they are, 0 and
                                    QN_THREADS_DEFAULT mean the fast cores. NULL: the session makes a pthreadpool. */
  qn_algorithm algorithm; /**< Forced for every convolution and fully connected layer where it applies; AUTO otherwise.
                               SPARSE leaves depthwise convolutions alone. AUTO may leave out weights of 0, which
                               then make no NaN of an infinity; DENSE does not. */
  int profile;            /**< Non-zero: time every operator. */
  size_t memory_limit; /**< Most bytes that planning may take: packed weights, tables, activations. Beyond, the answer
                            is QN_OUT_OF_MEMORY. 0: for the model's own input sizes, which a small file may have made
                            huge, 1 GiB and four times the model's weights; for sizes asked for, no limit. */
  qn_tuning* tuning;   /**< Measured choices for what `algorithm` leaves open, see qn_plan_options; the session keeps a
                            reference. NULL: none. */
  int tune;        /**< Non-zero: planning measures what `tuning` has no choice for, on the session's threads, and adds
                        it; seconds to a minute for a model. qn_tuning_save_file() keeps it for other processes. */
  qn_arena* arena; /**< Where the session has activations and workspace; it keeps a reference. NULL: one of its own. */
} qn_session_options;

/** Defaults: QN_THREADS_DEFAULT, parallel NULL, QN_ALGORITHM_AUTO, no profile, memory_limit 0, no tuning, no arena. */
QN_INIT(qn_session_options)

/** Plans every operator for the model's own input sizes. options may be NULL. QN_OUT_OF_MEMORY also where limits of the
 * process or of its user leave no room for so many threads. */
QN_API qn_status qn_session_create(qn_model* model, const qn_session_options* options, qn_session** session);
/** Frees the session. NULL is allowed. */
QN_API void qn_session_release(qn_session* session);

/** Gives input `index` another shape of the same rank, in the source's layout, and plans anew. On failure the session
 * keeps its old sizes. */
QN_API qn_status qn_session_resize(qn_session* session, size_t index, uint32_t rank, const size_t* shape);
/** The same for all inputs at once, for models whose inputs must change together: one entry of `tensors` per input. */
QN_API qn_status qn_session_resize_all(qn_session* session, const qn_tensor* tensors);

/** Current description of an input. */
QN_API qn_status qn_session_input_tensor(const qn_session* session, size_t index, qn_tensor* tensor);
/** Current description of an output. */
QN_API qn_status qn_session_output_tensor(const qn_session* session, size_t index, qn_tensor* tensor);

/** Runs the model. `inputs`: one dense buffer per input, read only; NULL stands for the one that is bound to the input,
 *  and where all are bound, `inputs` may be NULL. Buffers within the session's arena are refused: what a session left
 *  there is copied first, or bound elsewhere. Answers QN_CANCELLED if qn_session_cancel() came. */
QN_API qn_status qn_session_run(qn_session* session, const void* const* inputs);

/** Binds `size` bytes at `data` to input `index`: runs read the input there where they are given no other buffer for
 *  it. They hold a dense tensor, need not be aligned to more than its elements, and may be more than it takes. Nothing
 *  is copied, now or by a run, beyond what converting QN_F16 takes. The buffer stays the caller's and is never written.
 *  It must be valid, and not change, whenever the session runs; what it holds at other times does not matter. It stays
 *  bound, also when the session is resized, until another is bound, or NULL (then `size` does not matter), or the
 *  session is released. A resize to more than `size` bytes is refused. Like all calls but qn_session_cancel(), this one
 *  must not be made while the session runs. */
QN_API qn_status qn_session_bind_input(qn_session* session, size_t index, const void* data, size_t size);
/** The same for output `index`: runs leave it there, and qn_session_output() returns `data` after them. The model
 *  computes it where it is to be, with the same bits as ever; it is copied there, at the end of a run, only if it is
 *  QN_F16, an input, a constant or the same as another output. A run may write there from its beginning on, and read
 *  what it wrote; when it is cancelled, any values are left. The buffer must not overlap one that is bound to another
 *  input or output, nor an input given to a run: both are QN_INVALID_ARGUMENT, as is a wrong size or alignment. It does
 *  not make the arena smaller. */
QN_API qn_status qn_session_bind_output(qn_session* session, size_t index, void* data, size_t size);
/** Address of output `index`, dense: where the last run left it, valid until the next run, resize or release; in an
 *  arena of several sessions until another of them runs or the arena grows, after which this is QN_INVALID_ARGUMENT. */
QN_API qn_status qn_session_output(const qn_session* session, size_t index, const void** data);

/** Asks a run in another thread to stop before its next operator. Without a run going on, the next one stops at once; a
 *  run that has begun its last operator ends as if nothing had been asked. Thread-safe. */
QN_API void qn_session_cancel(qn_session* session);

/** Bytes of activations and workspace that the session needs: its own arena's, or of the one it was given. */
QN_API size_t qn_session_memory(const qn_session* session);

/** One operator of a profiling session. Strings live until the next resize or release. */
typedef struct qn_profile_entry {
  size_t struct_size;    /**< Written by the init function. */
  const char* name;      /**< Of the node in the model. */
  const char* op;        /**< Kind of operator, for example "conv2d". */
  const char* algorithm; /**< "" where there is no choice. */
  const char* kernel;    /**< Main micro-kernel or "". */
  uint64_t macs;         /**< Multiply-accumulates; 0 where there are none. */
  uint64_t start_ns;     /**< Since the start of the last run. */
  uint64_t time_ns;      /**< From its start to its end; 0 if the last run did not come so far, or there was none. */
} qn_profile_entry;

/** Makes the struct ready to be filled. */
QN_INIT_OUTPUT(qn_profile_entry)

/** Number of entries; 0 without `profile`. */
QN_API size_t qn_session_profile_count(const qn_session* session);
/** Entry `index`, in the order of execution. `entry` must be initialised. */
QN_API qn_status qn_session_profile(const qn_session* session, size_t index, qn_profile_entry* entry);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
