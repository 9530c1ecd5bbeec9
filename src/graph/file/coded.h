// Coded constants (coder/rans.h): the weights of layers stay coded until they are packed; other constants are decoded when
// the model is loaded. model.fbs describes their segments.
#pragma once

#include <span>

#include "graph/coder/rans.h"
#include "graph/file/encoded.h"

namespace quern {

// The matrix of bytes that the coder sees: integers of a byte lie as their constant has them, output channel by output
// channel; longer elements make a row each, so that like bytes of them lie in one column.
struct CodedShape {
  size_t rows, depth;

  // Of a constant of so many bytes; `rows` is 0 if it is no matrix of weights.
  static CodedShape of(size_t bytes, size_t rows, size_t item) {
    if (item == 1 && rows != 0) return {rows, bytes / rows};
    return {bytes / item, item};
  }
};

// The weights of a layer. Decoding them goes through the stream from its beginning to its end: a reader that asks for
// rows in ascending order decodes each of them once, and another one who begins meanwhile makes both begin again.
class CodedConstant final : public EncodedConstant {
 public:
  // The owner of the object must keep the segment alive, which may change meanwhile, as mapped files may. `bytes` is a
  // multiple of rows * item.
  static Shared<const CodedConstant> make(std::span<const unsigned char> segment, size_t rows, size_t bytes,
                                          size_t item, const qn_weights_summary& summary);

  qn_status decode(size_t first, size_t count, void* to) const override;
  // Only after the last row: a segment is small.
  void forget(size_t first, size_t count) const override;

 private:
  struct Cursor {
    bool open = false;
    size_t next = 0;  // row
    RansRows rows;
  };
  qn_status seek(size_t row, unsigned char* room, size_t rows_of_room) const;
  qn_status read(size_t count, unsigned char* to) const;
  size_t coder_rows(size_t count) const { return item_ == 1 ? count : count * (row_bytes_ / item_); }

  mutable Mutex mutex_;  // guards the cursor
  mutable Cursor cursor_;
};

// Decodes a segment that is no matrix of weights.
qn_status decode_whole(std::span<const unsigned char> segment, size_t bytes, size_t item, void* to);

// EncodedConstant::work() of a segment.
uint64_t work_of(std::span<const unsigned char> segment, uint64_t bytes);

// A checksum of what files store.
uint32_t checksum(std::span<const unsigned char> bytes);
constexpr size_t checksum_bytes = sizeof(uint32_t);

}  // namespace quern
