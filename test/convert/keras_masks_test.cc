// Masks of Keras' sequences: which layers make them, pass them on, use them.
#include <algorithm>
#include <cmath>

#include "convert/keras/keras.h"
#include "keras_model.h"

namespace quern::test {
namespace keras_masks_test {

class KerasMasks : public KerasWithExtra {};

constexpr size_t batch = 4, steps = 5, depth = 3, units = 2;
const bool counts[batch][steps] = {{true, true, true, true, true},
                                   {true, false, true, false, true},
                                   {false, false, true, true, false},
                                   {false, false, false, false, false}};

// Steps that do not count are of one number.
Array sequences(float masked = 0) {
  const Array x = random({batch, steps, depth}, 1);
  return generate(x.dims, [&](const Dims& at) { return counts[at[0]][at[1]] ? x.at(at) : masked; });
}

struct Kind {
  const char* type;
  size_t gates;
  const char* config;
};
const Kind kinds[] = {{"SimpleRNN", 1, ""}, {"LSTM", 4, ""}, {"GRU", 3, ", 'reset_after': false"}};

KerasWeights weights_of(const Kind& kind, const std::string& folder) {
  const size_t width = kind.gates * units;
  return {{folder + "kernel", random({depth, width}, 2)},
          {folder + "recurrent_kernel", random({units, width}, 3)},
          {folder + "bias", random({width}, 4)}};
}

// What a layer makes of those steps of one sequence that count, in the order in which it takes them.
std::vector<std::vector<float>> results_of(const Kind& kind, const Array& x, size_t b, bool backwards) {
  std::vector<Array> rows;
  for (size_t i = 0; i < steps; ++i) {
    const size_t t = backwards ? steps - 1 - i : i;
    if (counts[b][t]) rows.push_back(slice(x, {b, t, 0}, {b + 1, t + 1, depth}));
  }
  if (rows.empty()) return {};
  const Array own = concat(rows, 1);
  const std::string config = "'units': 2, 'return_sequences': true" + std::string(kind.config);
  const Graph graph = keras::import_contents(one_layer(kind.type, config, own.dims, weights_of(kind, "")), {});
  const Array y = run(graph, {own}).at(0);
  std::vector<std::vector<float>> results;
  for (size_t i = 0; i < rows.size(); ++i) {
    results.emplace_back(y.data.begin() + static_cast<ptrdiff_t>(i * units),
                         y.data.begin() + static_cast<ptrdiff_t>((i + 1) * units));
  }
  return results;
}

// The results of all steps, in the order in which the layer takes them. A step that does not count gives the result of
// the one before, or 0.
Array all_steps(const Kind& kind, const Array& x, bool backwards, bool zeros) {
  Array all = make({batch, steps, units}, std::vector<float>(batch * steps * units));
  for (size_t b = 0; b < batch; ++b) {
    const std::vector<std::vector<float>> results = results_of(kind, x, b, backwards);
    size_t done = 0;
    for (size_t i = 0; i < steps; ++i) {
      const bool now = counts[b][backwards ? steps - 1 - i : i];
      done += now ? 1 : 0;
      for (size_t u = 0; u < units; ++u) {
        all.at({b, i, u}) = done == 0 || (zeros && !now) ? 0 : results[done - 1][u];
      }
    }
  }
  return all;
}

Array last_step(const Array& all) {
  return reshape(slice(all, {0, steps - 1, 0}, {batch, steps, units}), {batch, units});
}

const std::string masking = keras_layer("Masking", "m", "'mask_value': 0.0");

// A sequential model of Masking and these layers.
keras::Contents masked(const std::vector<std::string>& layers, const KerasWeights& weights,
                       const std::string& version = "2.4.0") {
  std::vector<std::string> all = {keras_input("x", {batch, steps, depth}), masking};
  all.insert(all.end(), layers.begin(), layers.end());
  return keras_contents(keras_sequential("net", all), weights, version);
}
void expect_masked(const std::vector<std::string>& layers, const KerasWeights& weights, const Array& want,
                   const std::string& version = "2.4.0") {
  expect_near(run(keras::import_contents(masked(layers, weights, version), {}), {sequences()}).at(0), want);
}

TEST_F(KerasMasks, RecurrentLayers) {
  const Array x = sequences();
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.type);
    for (const bool backwards : {false, true}) {
      for (const bool zeros : {false, true}) {
        const std::string config = "'units': 2" + std::string(kind.config) +
                                   (backwards ? ", 'go_backwards': true" : "") +
                                   (zeros ? ", 'zero_output_for_mask': true" : "");
        const KerasWeights weights = weights_of(kind, "r/");
        const Array all = all_steps(kind, x, backwards, zeros);
        expect_masked({keras_layer(kind.type, "r", config)}, weights, last_step(all));
        expect_masked({keras_layer(kind.type, "r", config + ", 'return_sequences': true")}, weights, all);
      }
    }
  }
}

// A model converted at one number of images runs at another.
TEST_F(KerasMasks, RunAtAnyBatch) {
  const Graph graph =
      keras::import_contents(masked({keras_layer("LSTM", "r", "'units': 2")}, weights_of(kinds[1], "r/")), {});
  const Array x = sequences(), want = last_step(all_steps(kinds[1], x, false, false));
  expect_near(run(graph, {slice(x, {1, 0, 0}, {2, steps, depth})}).at(0), slice(want, {1, 0}, {2, units}));
  expect_near(run(graph, {concat({x, x}, 0)}).at(0), concat({want, want}, 0));
}

// Both directions give 0 where a step does not count.
TEST_F(KerasMasks, Bidirectional) {
  const Array x = sequences();
  const Kind& kind = kinds[2];
  KerasWeights weights = weights_of(kind, "b/b/forward_r/");
  weights.merge(weights_of(kind, "b/b/backward_r/"));
  const auto layer = [&](const std::string& more) {
    return keras_layer("Bidirectional", "b",
                       "'merge_mode': 'concat', 'layer': {'class_name': 'GRU', 'config': {"
                       "'name': 'r', 'units': 2, 'reset_after': false" +
                           more + "}}");
  };
  const Array forward = all_steps(kind, x, false, true), back = all_steps(kind, x, true, true);
  const Array turned = generate(back.dims, [&](Dims at) {
    at[1] = steps - 1 - at[1];
    return back.at(at);
  });
  expect_masked({layer(", 'return_sequences': true")}, weights, concat({forward, turned}, 2));
  const Array ends =
      concat({last_step(all_steps(kind, x, false, false)), last_step(all_steps(kind, x, true, false))}, 1);
  expect_masked({layer("")}, weights, ends);
}

// The mean of the steps that count: of none, NaN.
TEST_F(KerasMasks, GlobalAveragePooling) {
  const Array x = sequences();
  const Array want = generate({batch, depth}, [&](const Dims& at) {
    float sum = 0, n = 0;
    for (size_t t = 0; t < steps; ++t) {
      if (counts[at[0]][t]) sum += x.at({at[0], t, at[1]}), n += 1;
    }
    return sum / n;
  });
  const Graph graph = keras::import_contents(masked({keras_layer("GlobalAveragePooling1D", "p", "")}, {}), {});
  const Array got = run(graph, {x}).at(0);
  expect_near(slice(got, {0, 0}, {3, depth}), slice(want, {0, 0}, {3, depth}));
  for (size_t i = 0; i < depth; ++i) EXPECT_TRUE(std::isnan(got.at({3, i})));
}

// Layers that know nothing of masks pass none on, some pass theirs on.
TEST_F(KerasMasks, PassThroughLayers) {
  const Array x = sequences();
  const Kind& kind = kinds[1];
  const KerasWeights weights = weights_of(kind, "r/");
  const std::string layer = keras_layer("LSTM", "r", "'units': 2");
  const Array with_mask = last_step(all_steps(kind, x, false, false));
  const Array without =
      run(keras::import_contents(one_layer("LSTM", "'units': 2", x.dims, weights_of(kind, "")), {}), {x}).at(0);
  for (const char* type : {"Dropout", "ActivityRegularization", "SpatialDropout1D", "GaussianNoise"}) {
    expect_masked({keras_layer(type, "d", ""), layer}, weights, with_mask);
  }
  expect_masked({keras_layer("Activation", "d", "'activation': 'linear'"), layer}, weights, with_mask);
  expect_masked({keras_layer("Permute", "d", "'dims': [1, 2]"), layer}, weights, without);
  expect_masked({keras_layer("Rescaling", "d", "'scale': 1.0"), layer}, weights, without);
  expect_masked({keras_layer("Rescaling", "d", "'scale': 1.0"), layer}, weights, with_mask, "3.1.0");
}

// The number of Masking and that of Embedding; indices may be real numbers.
TEST_F(KerasMasks, LayersThatMakeThem) {
  const Kind& kind = kinds[0];
  KerasWeights weights = weights_of(kind, "r/");
  const std::string layer = keras_layer("SimpleRNN", "r", "'units': 2");
  const std::string net = keras_sequential(
      "net", {keras_input("x", {batch, steps, depth}), keras_layer("Masking", "m", "'mask_value': 0.5"), layer});
  const Array want = last_step(all_steps(kind, sequences(), false, false));
  expect_near(run(keras::import_contents(keras_contents(net, weights), {}), {sequences(0.5f)}).at(0), want);
  // Steps that are left out are 0.
  const std::string alone = keras_sequential(
      "net", {keras_input("x", {batch, steps, depth}), keras_layer("Masking", "m", "'mask_value': 0.5")});
  expect_near(run(keras::import_contents(keras_contents(alone, {}), {}), {sequences(0.5f)}).at(0), sequences());
  const Array table = random({batch * steps + 1, depth}, 5);
  weights["e/embeddings"] = table;
  const Array indices = generate({batch, steps}, [](const Dims& at) {
    return counts[at[0]][at[1]] ? static_cast<float>(1 + at[0] * steps + at[1]) : 0.0f;
  });
  const Array rows = generate({batch, steps, depth}, [&](const Dims& at) {
    return table.at({static_cast<size_t>(indices.at({at[0], at[1]})), at[2]});
  });
  const std::string embedding = "'input_dim': 21, 'output_dim': 3, 'mask_zero': true";
  const std::string words =
      keras_sequential("net", {keras_input("x", {batch, steps}), keras_layer("Embedding", "e", embedding), layer});
  expect_near(run(keras::import_contents(keras_contents(words, weights), {}), {indices}).at(0),
              last_step(all_steps(kind, rows, false, false)));
}

const std::string tensor_begin = "{'class_name': '__keras_tensor__', 'config': {'keras_history': ['";
std::string tensor(const std::string& layer) { return tensor_begin + layer + "', 0, 0]}}"; }
std::string new_call(const std::string& arguments, const std::string& keywords = "") {
  return "[{'args': [" + arguments + "], 'kwargs': {" + keywords + "}}]";
}

// Keras 3 names the mask of a call, and the functions that compute it. A layer that has a state beside the sequence
// gets no other mask than one that the call names.
TEST_F(KerasMasks, NamedByCalls) {
  const Array x = sequences();
  const Kind& kind = kinds[0];
  const Array none = make({batch, units}, std::vector<float>(batch * units));
  const Array with_mask = last_step(all_steps(kind, x, false, false));
  const Array without =
      run(keras::import_contents(one_layer("SimpleRNN", "'units': 2", x.dims, weights_of(kind, "")), {}), {x}).at(0);
  const auto result = [&](const std::string& keywords) {
    const std::string net = keras_functional(
        "net",
        {keras_input("x", x.dims), keras_input("s", none.dims),
         keras_layer("Masking", "m", "'mask_value': 0.0, 'trainable': true", new_call(tensor("x"))),
         keras_layer("NotEqual", "n", "", new_call(tensor("x") + ", 0.0")),
         keras_layer("Any", "a", "'axis': -1, 'keepdims': false", new_call(tensor("n"))),
         keras_layer("SimpleRNN", "r", "'units': 2, 'trainable': true", new_call(tensor("m"), keywords))},
        "[['x', 0, 0], ['s', 0, 0]]", "[['r', 0, 0]]");
    const Graph graph = keras::import_contents(keras_contents(net, weights_of(kind, "r/"), "3.1.0"), {});
    return run(graph, {x, none}).at(0);
  };
  const std::string state = "'initial_state': [" + tensor("s") + "]", mask = "'mask': " + tensor("a");
  expect_near(result(""), with_mask);
  expect_near(result(mask), with_mask);
  expect_near(result(state), without);
  expect_near(result(state + ", " + mask), with_mask);
  expect_near(result("'mask': null"), with_mask);
}

// Of a sum, Keras 3 takes steps that count in any input, Keras 2 those that count in all.
TEST_F(KerasMasks, OfSums) {
  const Array x = sequences(), other = generate(x.dims, [&](const Dims&at) { return at[1] == 1 ? 0 : x.at(at) + 3; });
  const auto result = [&](const std::string& version) {
    const auto call = [](const std::string& layer) { return "[[['" + layer + "', 0, 0, {}]]]"; };
    const std::string net =
        keras_functional("net",
                         {keras_input("x", x.dims), keras_input("y", x.dims),
                          keras_layer("Masking", "m", "", call("x")), keras_layer("Masking", "n", "", call("y")),
                          keras_layer("Add", "a", "", "[[['m', 0, 0, {}], ['n', 0, 0, {}]]]"),
                          keras_layer("GlobalAveragePooling1D", "p", "", call("a"))},
                         "[['x', 0, 0], ['y', 0, 0]]", "[['p', 0, 0]]");
    return run(keras::import_contents(keras_contents(net, {}, version), {}), {x, other}).at(0);
  };
  for (const bool any : {false, true}) {
    const Array want = generate({batch, depth}, [&](const Dims& at) {
      float sum = 0, n = 0;
      for (size_t t = 0; t < steps; ++t) {
        const bool first = counts[at[0]][t], second = t != 1;
        if (any ? first || second : first && second)
          sum += x.at({at[0], t, at[1]}) + other.at({at[0], t, at[1]}), n += 1;
      }
      return sum / n;
    });
    expect_near(slice(result(any ? "3.1.0" : "2.4.0"), {0, 0}, {3, depth}), slice(want, {0, 0}, {3, depth}));
  }
}

// Queries that are left out give 0, keys that are left out no weight.
TEST_F(KerasMasks, Attention) {
  const Array x = sequences();
  const std::string net =
      keras_functional("net",
                       {keras_input("x", x.dims), keras_layer("Masking", "m", "", "[[['x', 0, 0, {}]]]"),
                        keras_layer("Attention", "a", "", "[[['m', 0, 0, {}], ['m', 0, 0, {}]]]")},
                       "[['x', 0, 0]]", "[['a', 0, 0]]");
  const Array want = generate(x.dims, [&](const Dims& at) {
    float total = 0, sum = 0;
    for (size_t k = 0; k < steps && counts[at[0]][at[1]]; ++k) {
      float score = 0;
      for (size_t d = 0; d < depth; ++d) score += x.at({at[0], at[1], d}) * x.at({at[0], k, d});
      const float weight = counts[at[0]][k] ? std::exp(score) : 0;
      total += weight, sum += weight * x.at({at[0], k, at[2]});
    }
    return total == 0 ? 0 : sum / total;
  });
  expect_near(run(keras::import_contents(keras_contents(net, {}), {}), {x}).at(0), want);
}

TEST_F(KerasMasks, Refused) {
  const KerasWeights weights = weights_of(kinds[0], "r/");
  // Each step of a TimeDistributed has one bool here, where a sequence has many.
  const std::string inner = "'layer': {'class_name': 'SimpleRNN', 'config': {'name': 'r', 'units': 2}}";
  const std::string net = keras_sequential(
      "net", {keras_input("x", {2, steps, depth}), masking, keras_layer("Reshape", "s", "'target_shape': [5, 3, 1]"),
              keras_layer("TimeDistributed", "t", inner)});
  expect_in(refusal(keras_contents(net, {})), "no weights 'kernel'");  // Reshape drops the mask
  const std::string rows = keras_sequential(
      "net", {keras_input("x", {2, 4, steps, depth}), masking, keras_layer("GlobalAveragePooling1D", "p", "")});
  expect_in(refusal(keras_contents(rows, {})), "a mask of rank 3");
  const std::string argument =
      keras_functional("net",
                       {keras_input("x", {2, steps, depth}),
                        keras_layer("SimpleRNN", "r", "'units': 2", "[[['x', 0, 0, {'mask': 'text'}]]]")},
                       "[['x', 0, 0]]", "[['r', 0, 0]]");
  expect_in(refusal(keras_contents(argument, weights)), "the argument 'mask'");
}

}  // namespace keras_masks_test
}  // namespace quern::test
