#include "graph/file/coded.h"

#include <algorithm>
#include <cstring>

#include "base/border.h"
#include "base/status.h"
#include "graph/file/mapped_file.h"

namespace quern {

Shared<const CodedConstant> CodedConstant::make(std::span<const unsigned char> segment, size_t rows, size_t bytes,
                                                size_t item, const qn_weights_summary& summary) {
  auto made = make_shared<CodedConstant>();
  made->segment_ = segment;
  made->rows_ = rows, made->row_bytes_ = bytes / rows, made->item_ = item;
  made->traffic_ = bytes, made->work_ = work_of(segment, bytes);
  made->summarized_ = true, made->summary_ = summary;
  return made;
}

qn_status CodedConstant::decode(size_t first, size_t count, void* to) const {
  auto* const bytes = static_cast<unsigned char*>(to);
  const Lock lock(mutex_);
  const auto read_all = [&] {
    QN_TRY(seek(first, bytes, count));
    QN_TRY(read(count, bytes));
    return cursor_.next == rows_ ? cursor_.rows.finish() : QN_OK;
  };
  const qn_status status = read_all();
  // The tables take memory, which is only needed until the last row.
  if (status != QN_OK || cursor_.next == rows_) cursor_ = Cursor();
  return status;
}

// Moves the cursor to a row. What lies before it is decoded into `room`.
qn_status CodedConstant::seek(size_t row, unsigned char* room, size_t rows_of_room) const {
  if (!cursor_.open || row < cursor_.next) {
    qn_status status = QN_OK;
    publish(block_of(this), [&] {
      Cursor begin;
      const CodedShape shape = CodedShape::of(rows_ * row_bytes_, rows_, item_);
      status = RansRows::open(segment_, shape.rows, shape.depth, &begin.rows);
      begin.open = status == QN_OK;
      cursor_ = std::move(begin);
    });
    QN_TRY(status);
  }
  while (cursor_.next < row) QN_TRY(read(std::min(rows_of_room, row - cursor_.next), room));
  return QN_OK;
}

qn_status CodedConstant::read(size_t count, unsigned char* to) const {
  cursor_.next += count;
  return cursor_.rows.read(coder_rows(count), reinterpret_cast<int8_t*>(to));
}

void CodedConstant::forget(size_t first, size_t count) const {
  if (first + count == rows_) forget_pages(segment_.data(), segment_.size());
}

qn_status decode_whole(std::span<const unsigned char> segment, size_t bytes, size_t item, void* to) {
  const CodedShape shape = CodedShape::of(bytes, 0, item);
  RansRows rows;
  QN_TRY(RansRows::open(segment, shape.rows, shape.depth, &rows));
  QN_TRY(rows.read(shape.rows, static_cast<int8_t*>(to)));
  return rows.finish();
}

// Every stream has small data (coder/rans.h), which takes longer than other data: all of its elements, or its tables. To
// begin takes time, too.
uint64_t work_of(std::span<const unsigned char> segment, uint64_t bytes) {
  constexpr uint64_t begin = 4096, per_small = 64;
  RansHeader header = {};
  if (segment.size() >= sizeof header) std::memcpy(&header, segment.data(), sizeof header);
  return begin + (header.tables == 0 ? per_small * bytes : bytes + per_small * header.table_bytes);
}

// Each step maps different sums to different ones, and different words too, before the last one folds the sum.
uint32_t checksum(std::span<const unsigned char> bytes) {
  uint64_t sum = bytes.size(), word = 0;
  const auto add = [&] {
    constexpr uint64_t prime = 0x9e3779b97f4a7c15;
    sum = (sum ^ word) * prime;
    sum ^= sum >> 32;
  };
  size_t i = 0;
  for (; bytes.size() - i >= sizeof word; i += sizeof word) {
    std::memcpy(&word, &bytes[i], sizeof word);
    add();
  }
  if (i < bytes.size()) {
    word = 0;
    std::memcpy(&word, &bytes[i], bytes.size() - i);
    add();
  }
  return static_cast<uint32_t>(sum >> 32);
}

}  // namespace quern
