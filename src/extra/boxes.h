// Rectangles in images, as detectors give them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "extra/shape.h"

namespace quern::extra {

struct Box {
  float left, top, right, bottom;
};

inline float area(const Box& box) {
  if (box.right < box.left || box.bottom < box.top) return 0;
  return (box.right - box.left) * (box.bottom - box.top);
}

constexpr size_t work_of_overlap = 4;
// The area of the intersection of two boxes, divided by that of their union.
inline float overlap(const Box& a, const Box& b) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  return width * height / (area(a) + area(b) - width * height);
}

struct Candidate {
  float score;
  size_t index;  // of its box
};

struct Suppression {
  float threshold;         // how much of two boxes may overlap
  float eta;               // below 1: a threshold above 0.5 becomes smaller with each box that stays
  size_t candidates;       // how many are looked at, after sorting
  size_t kept = SIZE_MAX;  // how many stay at most
};

// Brings candidates into the order of their scores, which are numbers, and drops those whose box overlaps that of one
// before by more than the threshold.
inline void suppress(const Box* boxes, Suppression limits, std::vector<Candidate>& candidates) {
  Pace pace;
  std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    pace.did(1);
    return a.score > b.score;
  });
  if (candidates.size() > limits.candidates) candidates.resize(limits.candidates);
  size_t kept = 0;
  for (const Candidate candidate : candidates) {
    if (kept == limits.kept) break;
    const Box& box = boxes[candidate.index];
    const auto fits = [&](const Candidate& other) {
      pace.did(work_of_overlap);
      return overlap(boxes[other.index], box) <= limits.threshold;
    };
    if (!std::all_of(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(kept), fits)) continue;
    candidates[kept++] = candidate;
    if (limits.eta < 1 && limits.threshold > 0.5f) limits.threshold *= limits.eta;
  }
  candidates.resize(kept);
}

}  // namespace quern::extra
