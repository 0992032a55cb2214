#include "paceline/rpc/memory_key_value.h"

#include "paceline/testing/key_value_conformance.h"

namespace paceline::testing {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Memory, KeyValueConformance, rpc::MemoryKeyValueStore);

}  // namespace
}  // namespace paceline::testing
