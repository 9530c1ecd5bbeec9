#include "base/shared.h"

#include "base/journal.h"

namespace quern {
namespace {

// A call that gives up lets go of what it held. The journal knows a hold by the address after that of the counts.
void undo_hold(void* hold, size_t times) {
  auto* const counts = reinterpret_cast<Counts*>(static_cast<char*>(hold) - 1);
  for (; times > 0; --times) Counts::let_go(counts);
}

}  // namespace

void Counts::hold(Counts* counts) {
  if (counts == nullptr) return;
  note_hold(counts, undo_hold);
  counts->holders.fetch_add(1, std::memory_order_relaxed);
}

bool Counts::hold_again() {
  note_hold(this, undo_hold);
  size_t now = holders.load();
  while (now != 0 && !holders.compare_exchange_weak(now, now + 1)) {}
  if (now == 0) forget_hold(this);
  return now != 0;
}

void Counts::let_go(Counts* counts) noexcept {
  if (counts == nullptr) return;
  forget_hold(counts);
  if (counts->holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  counts->end(counts);
  forget(counts);
}

// Who remembers does so for good: in what is published (border.h).
void Counts::remember() { rememberers.fetch_add(1, std::memory_order_relaxed); }

void Counts::forget(Counts* counts) noexcept {
  if (counts == nullptr) return;
  if (counts->rememberers.fetch_sub(1, std::memory_order_acq_rel) == 1) release(counts, counts->size);
}

}  // namespace quern
