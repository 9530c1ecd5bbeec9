#include "graph/session/arena.h"

#include "base/status.h"

namespace quern {

qn_status Arena::prepare(size_t bytes, Buffer* memory) const {
  if (bytes <= size()) return QN_OK;
  if (fixed_) {
    return fail(QN_OUT_OF_MEMORY, "the session needs %zu bytes, but the arena has %zu", bytes, size());
  }
  *memory = Buffer(bytes);
  return QN_OK;
}

void Arena::adopt(Buffer memory) {
  memory_ = std::move(memory);
  data_ = static_cast<char*>(memory_.data());
  size_ = memory_.size();
  last = nullptr;
}

struct ForeignBlocks::Block : Allocated {
  const Memory& memory;
  size_t size = 0;
  void* data = nullptr;
  Block* next = nullptr;
};

ForeignBlocks::Block* ForeignBlocks::find(const Memory& memory) const {
  Block* block = first_;
  while (block != nullptr && &block->memory != &memory) block = block->next;
  return block;
}

void* ForeignBlocks::data(const Memory& memory) const {
  const Block* const block = find(memory);
  return block == nullptr ? nullptr : block->data;
}

size_t ForeignBlocks::size(const Memory& memory) const {
  const Block* const block = find(memory);
  return block == nullptr ? 0 : block->size;
}

qn_status ForeignBlocks::add(const Memory& memory, size_t bytes) {
  std::unique_ptr<Block> made(new Block{{}, memory, bytes});
  QN_TRY(memory.allocate(bytes, &made->data));
  made->next = first_;
  first_ = made.release();
  return QN_OK;
}

void ForeignBlocks::release(Block* block) {
  block->memory.release(block->data);
  delete block;
}

void ForeignBlocks::take(ForeignBlocks&& others) {
  while (Block* const block = others.first_) {
    others.first_ = block->next;
    Block* const old = find(block->memory);
    if (old == nullptr) {
      block->next = first_;
      first_ = block;
      continue;
    }
    if (old->size < block->size) {
      std::swap(old->size, block->size);
      std::swap(old->data, block->data);
    }
    release(block);
  }
}

void ForeignBlocks::clear() {
  while (Block* const block = first_) {
    first_ = block->next;
    release(block);
  }
}

namespace {

qn_status create(void* memory, size_t size, qn_arena** arena) {
  if (arena == nullptr) return fail(QN_INVALID_ARGUMENT, "qn_arena_create: arena is NULL");
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (address % cache_line != 0) {
    return fail(QN_INVALID_ARGUMENT, "qn_arena_create: memory is not aligned to %zu", cache_line);
  }
  if (size > UINTPTR_MAX - address) return fail(QN_INVALID_ARGUMENT, "qn_arena_create: %zu bytes are too many", size);
  std::unique_ptr<qn_arena> made(new qn_arena);
  if (memory != nullptr) {
    made->impl = quern::make_shared<Arena>(memory, size);
  } else {
    made->impl = quern::make_shared<Arena>();
    if (size != 0) made->impl->adopt(Buffer(size));
  }
  *arena = made.release();
  return QN_OK;
}

}  // namespace
}  // namespace quern

extern "C" {

qn_status qn_arena_create(void* memory, size_t size, qn_arena** arena) {
  return quern::guarded([=] { return quern::create(memory, size, arena); });
}

void qn_arena_release(qn_arena* arena) { delete arena; }

size_t qn_arena_bytes(const qn_arena* arena) { return arena == nullptr ? 0 : arena->impl->size(); }

}  // extern "C"
