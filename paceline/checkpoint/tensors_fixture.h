// Published checkpoints with tensors of a test's choice.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "paceline/checkpoint/checkpoint_fixture.h"
#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::checkpoint {

struct TestTensor {
  std::string name;
  std::string dtype;
  Shape shape;
  std::string bytes;
};

template <class T>
TestTensor values(const std::string& name, const std::string& dtype, const std::vector<T>& elements, Shape shape = {}) {
  if (shape.empty()) shape = {std::ssize(elements)};
  TestTensor tensor{name, dtype, std::move(shape), std::string(elements.size() * sizeof(T), '\0')};
  if (!elements.empty()) std::memcpy(tensor.bytes.data(), elements.data(), tensor.bytes.size());
  return tensor;
}

inline TestTensor floats(const std::string& name, const std::vector<float>& elements, Shape shape = {}) {
  return values(name, "F32", elements, std::move(shape));
}

/// The folder of a checkpoint in `run_folder` that one rank has written, of `item` if given.
inline std::string publish(const std::string& run_folder, const std::vector<TestTensor>& tensors,
                           const std::string& item = "") {
  std::filesystem::create_directories(run_folder);
  auto stage = Stage::create(run_folder, worker(1), 1).ValueOrDie();
  std::vector<TensorBytes> bytes;
  for (const TestTensor& tensor : tensors) {
    bytes.push_back({.name = tensor.name,
                     .dtype = tensor.dtype,
                     .global_shape = tensor.shape,
                     .start = Shape(tensor.shape.size()),
                     .shape = tensor.shape,
                     .bytes = std::as_bytes(std::span(tensor.bytes))});
  }
  EXPECT_TRUE(stage.write_tensors("model.safetensors", bytes, item).ok());
  return Store(run_folder).publish({{0, stage.finish().ValueOrDie()}}, {.report = 1}).ValueOrDie().path.text();
}

}  // namespace paceline::checkpoint
