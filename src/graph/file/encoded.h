// Constants that stay in memory as a file stores them and are decoded a few rows at a time: sparse ones (sparse.h) and
// coded ones (coded.h). Dense constants lie in memory as they are.
#pragma once

#include <quern/op.h>

#include <span>

#include "base/status.h"
#include "base/vector.h"
#include "graph/ir/ir.h"

namespace quern {

// A matrix whose rows are output channels.
class EncodedConstant {
 public:
  // Writes rows first .. first + count - 1. Thread-safe. Whoever reads all rows should do so in ascending order.
  virtual qn_status decode(size_t first, size_t count, void* to) const = 0;
  // Gives the memory that holds these rows back to the system until somebody reads them again. Only for a mapped file.
  virtual void forget(size_t first, size_t count) const = 0;

  size_t rows() const { return rows_; }
  size_t row_bytes() const { return row_bytes_; }
  size_t item() const { return item_; }  // bytes of an element
  // About how many bytes a layer reads of it when it runs.
  size_t traffic() const { return traffic_; }
  // What the weights hold; NULL if nothing is known.
  const qn_weights_summary* summary() const { return summarized_ ? &summary_ : nullptr; }
  // How many bytes a file stores of it, without a checksum.
  size_t stored() const { return segment_.size(); }
  // How long it takes to decode: as long as to decode so many bytes of ordinary weights.
  uint64_t work() const { return work_; }

 protected:
  ~EncodedConstant() = default;  // a Shared knows the class of what it owns

  size_t rows_ = 0, row_bytes_ = 0, item_ = 0, traffic_ = 0;
  uint64_t work_ = 0;
  bool summarized_ = false;
  qn_weights_summary summary_ = {};
  std::span<const unsigned char> segment_;
};

// Reads a constant as a matrix of `rows` rows, whether it is encoded or not.
class ConstantRows {
 public:
  ConstantRows(const Constant& constant, size_t rows) : constant_(constant), row_bytes_(constant.bytes / rows) {}
  size_t row_bytes() const { return row_bytes_; }
  // Points `data` to rows first .. first + count - 1; they stay there until the next call.
  qn_status read(size_t first, size_t count, const void** data);

 private:
  const Constant& constant_;
  size_t row_bytes_;
  Vector<unsigned char> strip_;
};

// The same of floats.
class FloatRows {
 public:
  FloatRows(const Constant& constant, size_t rows) : rows_(constant, rows) {}
  size_t depth() const { return rows_.row_bytes() / sizeof(float); }
  qn_status read(size_t first, size_t count, const float** data) {
    const void* bytes;
    QN_TRY(rows_.read(first, count, &bytes));
    *data = static_cast<const float*>(bytes);
    return QN_OK;
  }

 private:
  ConstantRows rows_;
};

// About how many bytes a layer reads of a constant when it runs.
size_t traffic_of(const Constant& constant);

// Decodes every encoded constant, for code that needs all elements at once.
qn_status make_dense(Graph& graph);

}  // namespace quern
