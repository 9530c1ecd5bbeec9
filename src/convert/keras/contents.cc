#include "convert/keras/contents.h"

#include "base/math.h"

namespace quern::keras {

// A record is its kind, the length of its text, and the text. Behind the text of a weight, which is its path, follow
// the rank, the dimensions and the elements.
void Sender::record(char kind, const std::string& text) {
  write_(&kind, 1);
  number(text.size());
  write_(text.data(), text.size());
}

void Sender::weight(const std::string& path, const Weight& weight) {
  record('W', path);
  number(weight.shape.size());
  for (const size_t d : weight.shape) number(d);
  write_(weight.data.data(), weight.data.size() * sizeof(float));
}

namespace {

constexpr uint64_t max_rank = 8;

class Receiver {
 public:
  Receiver(const Read& read, uint64_t limit) : read_(read), left_(limit) {}

  Contents contents() {
    Contents all;
    for (;;) {
      char kind;
      take(&kind, 1);
      std::string text = this->text();
      if (kind == '.') return all;
      if (kind == '!') throw Error(text.empty() ? "the process that reads the file fails for no reason" : text);
      if (kind == 'C') {
        all.config = std::move(text);
      } else if (kind == 'V') {
        all.version = std::move(text);
      } else if (kind == 'W') {
        if (!all.weights.emplace(text, weight()).second) throw Error("the weights '" + text + "' are there twice");
      } else {
        throw Error("the process that reads the file sends nonsense");
      }
    }
  }

 private:
  void take(void* data, uint64_t bytes) {
    if (bytes > left_) throw Error("its content is far larger than the file");
    left_ -= bytes;
    read_(data, static_cast<size_t>(bytes));
  }

  uint64_t number() {
    uint64_t value;
    take(&value, sizeof value);
    return value;
  }

  // Refuses a size before there is memory for it.
  size_t size(uint64_t count, size_t element) {
    if (count > left_ / element) throw Error("its content is far larger than the file");
    return static_cast<size_t>(count);
  }

  std::string text() {
    std::string text(size(number(), 1), '\0');
    take(text.data(), text.size());
    return text;
  }

  Weight weight() {
    Weight weight;
    const uint64_t rank = number();
    if (rank > max_rank) throw Error("weights of rank " + std::to_string(rank));
    uint64_t count = 1;
    for (uint64_t d = 0; d < rank; ++d) {
      const uint64_t dimension = number();
      if (!checked_mul(count, dimension, &count)) throw Error("its content is far larger than the file");
      weight.shape.push_back(size(dimension, 1));
    }
    weight.data.resize(size(count, sizeof(float)));
    take(weight.data.data(), weight.data.size() * sizeof(float));
    return weight;
  }

  const Read& read_;
  uint64_t left_;
};

}  // namespace

Contents read_contents(const Read& read, uint64_t limit) { return Receiver(read, limit).contents(); }

}  // namespace quern::keras
