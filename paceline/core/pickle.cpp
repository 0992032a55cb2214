#include "paceline/core/pickle.h"

#include <bit>
#include <vector>

namespace paceline {
namespace {

// The instructions, as Python's pickletools names them.
constexpr char kProtocol = '\x80', kVersion = '\x02', kStop = '.';
constexpr char kMark = '(', kEmptyDict = '}', kSetItems = 'u', kEmptyList = ']', kAppends = 'e';
constexpr char kText = 'X', kPut = 'q', kLongPut = 'r', kGet = 'h', kLongGet = 'j';
constexpr char kInteger = 'J', kLongInteger = '\x8a', kReal = 'G', kTrue = '\x88', kFalse = '\x89', kNone = 'N';

constexpr uint32_t kShortPlaces = 256;
// A text that comes again takes two bytes, however long it is: of a pickle that was made for that, a few MB would
// fill any memory.
constexpr size_t kMostRepeatedBytes = size_t{64} << 20;

// Reads the instructions. Python's stack of values, in which marks separate those of open dicts and lists.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes), may_copy_(bytes.size() + kMostRepeatedBytes) {}

  arrow::Result<Json> read() {
    if (!take(kProtocol) || !take(kVersion)) return arrow::Status::Invalid("no pickle of protocol 2");
    while (!bytes_.empty()) {
      const char instruction = bytes_.front();
      bytes_.remove_prefix(1);
      if (instruction == kStop) return finish();
      ARROW_RETURN_NOT_OK(execute(instruction));
    }
    return broken();
  }

 private:
  static arrow::Status broken() { return arrow::Status::Invalid("a pickle that breaks off, or was changed"); }

  bool take(char wanted) {
    if (bytes_.empty() || bytes_.front() != wanted) return false;
    bytes_.remove_prefix(1);
    return true;
  }

  arrow::Result<uint64_t> number(size_t bytes) {
    if (bytes_.size() < bytes) return broken();
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes_[i]);
    bytes_.remove_prefix(bytes);
    return value;
  }

  arrow::Result<Json> finish() {
    if (stack_.size() != 1 || !marks_.empty() || !bytes_.empty()) return broken();
    return std::move(stack_.front());
  }

  arrow::Status put(uint64_t place) {
    if (stack_.empty() || place != memo_.size()) return broken();
    if (!stack_.back().is_string()) return broken();
    return copy(stack_.back(), memo_);
  }
  arrow::Status get(uint64_t place) {
    if (place >= memo_.size()) return broken();
    return copy(memo_[place], stack_);
  }
  arrow::Status copy(const Json& text, std::vector<Json>& to) {
    const size_t size = text.get_ref<const std::string&>().size();
    if (size > may_copy_) {
      return arrow::Status::Invalid("a pickle with more than ", kMostRepeatedBytes, " bytes of texts that come again");
    }
    may_copy_ -= size;
    to.push_back(text);
    return arrow::Status::OK();
  }

  arrow::Status execute(char instruction) {
    switch (instruction) {
      case kMark:
        if (stack_.empty() || marks_.size() >= kDeepestJson) return broken();
        marks_.push_back(stack_.size());
        return arrow::Status::OK();
      case kEmptyDict:
        stack_.push_back(Json::object());
        return arrow::Status::OK();
      case kEmptyList:
        stack_.push_back(Json::array());
        return arrow::Status::OK();
      case kSetItems:
      case kAppends:
        return close(instruction == kSetItems);
      case kText: {
        ARROW_ASSIGN_OR_RAISE(const uint64_t size, number(4));
        if (bytes_.size() < size) return broken();
        stack_.emplace_back(bytes_.substr(0, size));
        bytes_.remove_prefix(size);
        return arrow::Status::OK();
      }
      case kPut:
      case kLongPut: {
        ARROW_ASSIGN_OR_RAISE(const uint64_t place, number(instruction == kPut ? 1 : 4));
        return put(place);
      }
      case kGet:
      case kLongGet: {
        ARROW_ASSIGN_OR_RAISE(const uint64_t place, number(instruction == kGet ? 1 : 4));
        return get(place);
      }
      case kInteger: {
        ARROW_ASSIGN_OR_RAISE(const uint64_t value, number(4));
        stack_.emplace_back(static_cast<int64_t>(static_cast<int32_t>(value)));
        return arrow::Status::OK();
      }
      case kLongInteger: {
        ARROW_ASSIGN_OR_RAISE(const uint64_t size, number(1));
        if (size != 8) return broken();
        ARROW_ASSIGN_OR_RAISE(const uint64_t value, number(8));
        stack_.emplace_back(static_cast<int64_t>(value));
        return arrow::Status::OK();
      }
      case kReal: {
        ARROW_ASSIGN_OR_RAISE(const uint64_t value, number(8));
        stack_.emplace_back(std::bit_cast<double>(__builtin_bswap64(value)));
        return arrow::Status::OK();
      }
      case kTrue:
      case kFalse:
        stack_.emplace_back(instruction == kTrue);
        return arrow::Status::OK();
      case kNone:
        stack_.emplace_back(nullptr);
        return arrow::Status::OK();
      default:
        return arrow::Status::Invalid("a pickle with instruction ", static_cast<int>(instruction),
                                      ", which Paceline does not write");
    }
  }

  // What stands above the last mark becomes part of the dict or list below it.
  arrow::Status close(bool is_dict) {
    if (marks_.empty()) return broken();
    const size_t mark = marks_.back();
    marks_.pop_back();
    if (mark > stack_.size()) return broken();
    Json& whole = stack_[mark - 1];
    if (is_dict ? !whole.is_object() || (stack_.size() - mark) % 2 != 0 : !whole.is_array()) return broken();
    for (size_t i = mark; i < stack_.size(); i += is_dict ? 2 : 1) {
      if (!is_dict) {
        whole.push_back(std::move(stack_[i]));
      } else if (stack_[i].is_string()) {
        whole[stack_[i].get_ref<const std::string&>()] = std::move(stack_[i + 1]);
      } else {
        return broken();
      }
    }
    stack_.resize(mark);
    return arrow::Status::OK();
  }

  std::string_view bytes_;
  size_t may_copy_;  // bytes of texts
  std::vector<Json> stack_;
  std::vector<size_t> marks_;
  std::vector<Json> memo_;
};

}  // namespace

PickleWriter::PickleWriter() : bytes_{kProtocol, kVersion} {}

void PickleWriter::add_number(uint64_t number, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i, number >>= 8) bytes_ += static_cast<char>(number & 0xff);
}

void PickleWriter::begin_dict() {
  bytes_ += {kEmptyDict, kMark};
}

void PickleWriter::end_dict() {
  bytes_ += kSetItems;
}

void PickleWriter::begin_list() {
  bytes_ += {kEmptyList, kMark};
}

void PickleWriter::end_list() {
  bytes_ += kAppends;
}

void PickleWriter::text(std::string_view text) {
  const auto [place, is_new] = texts_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
  const bool is_short = place->second < kShortPlaces;
  if (is_new) {
    bytes_ += kText;
    add_number(text.size(), 4);
    bytes_ += text;
    bytes_ += is_short ? kPut : kLongPut;
  } else {
    bytes_ += is_short ? kGet : kLongGet;
  }
  add_number(place->second, is_short ? 1 : 4);
}

void PickleWriter::integer(int64_t number) {
  const bool is_short = number == static_cast<int32_t>(number);
  bytes_ += is_short ? kInteger : kLongInteger;
  if (!is_short) add_number(8, 1);
  add_number(static_cast<uint64_t>(number), is_short ? 4 : 8);
}

void PickleWriter::real(double number) {
  bytes_ += kReal;
  add_number(__builtin_bswap64(std::bit_cast<uint64_t>(number)), 8);
}

void PickleWriter::truth(bool value) {
  bytes_ += value ? kTrue : kFalse;
}

void PickleWriter::none() {
  bytes_ += kNone;
}

std::string PickleWriter::finish() {
  bytes_ += kStop;
  return std::move(bytes_);
}

arrow::Result<Json> decode_pickle(std::string_view bytes) {
  return Reader(bytes).read();
}

}  // namespace paceline
