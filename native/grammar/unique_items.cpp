#include "unique_items.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

namespace anneal::grammar {

namespace {

constexpr uint64_t kByteWork = 12;  // steps
constexpr size_t kLongNumber = 40;  // characters; double precision tells numbers apart by fewer

bool is_space(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

// Of a number or a literal.
bool is_bare(uint8_t byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '+' ||
         byte == '-' || byte == '.';
}

uint32_t hex_digit(uint8_t byte) { return byte <= '9' ? uint32_t(byte - '0') : uint32_t((byte | 32) - 'a' + 10); }

}  // namespace

// ---- values

uint32_t UniqueItems::length(Value value) const {
  uint32_t length;
  std::memcpy(&length, out_.data() + value + 1, sizeof length);
  return length;
}

bool UniqueItems::less(Value a, Value b) const { return tag(a) != tag(b) ? tag(a) < tag(b) : payload(a) < payload(b); }

UniqueItems::Value UniqueItems::item(Value array, uint32_t index) const {
  const Value end = next(array);
  Value at = array + uint32_t(kHeader);
  work_ += index + 1;
  for (; at < end && index > 0; --index) at = next(at);
  return at < end ? at : kNone;
}

UniqueItems::Value UniqueItems::member(Value object, Value key) const {
  const Value end = next(object);
  for (Value at = object + uint32_t(kHeader); at < end;) {
    const Value value = next(at);
    ++work_;
    if (payload(at) == payload(key)) return value;
    at = next(value);
  }
  return kNone;
}

UniqueItems::Value UniqueItems::begin_value(char tag) {
  const auto value = Value(out_.size());
  out_.push_back(tag);
  out_.append(kHeader - 1, '\0');
  return value;
}

void UniqueItems::end_value(Value value) {
  const auto length = uint32_t(out_.size() - value - kHeader);
  std::memcpy(out_.data() + value + 1, &length, sizeof length);
}

// ---- bytes

void UniqueItems::push(uint8_t byte, bool opens) {
  work_ += kByteWork;
  marks_.push_back({state_, uint32_t(out_.size()), uint32_t(arena_.size()), uint32_t(events_.size()),
                    uint32_t(log_.size()), uint32_t(starts_.size())});
  if (levels_.empty() && !opens) return;
  if (levels_.empty()) starts_.push_back(uint32_t(log_.size()));
  log_.push_back(uint16_t(byte | (opens ? 256 : 0)));
  if (levels_.empty())
    open(true, true);
  else
    read(byte, opens);
}

void UniqueItems::undo() {
  const Mark mark = marks_.back();
  marks_.pop_back();
  for (; events_.size() > mark.events; events_.pop_back()) revert(events_.back());
  state_ = mark.state;
  out_.resize(mark.out), arena_.resize(mark.arena), log_.resize(mark.log), starts_.resize(mark.starts);
}

void UniqueItems::revert(Event& event) {
  switch (event.kind) {
    case Event::opened: levels_.pop_back(); return;
    case Event::closed:
      if (!event.region.empty()) out_.replace(event.level.begin, std::string::npos, event.region);
      levels_.push_back(std::move(event.level));
      return;
    case Event::completed: {
      Level& level = levels_.back();
      --level.count;
      if (event.inserted != kNone) level.items.erase(level.items.begin() + event.inserted);
      if (event.narrows) level.left = std::move(event.values);
      return;
    }
    case Event::named: levels_.back().key = event.key; levels_.back().left = std::move(event.values);
  }
}

void UniqueItems::commit() {
  marks_.clear(), events_.clear();
  if (levels_.empty()) out_.clear();
  if (in_string() && state_.in_arena) {
    arena_.erase(arena_.begin() + state_.hi, arena_.end());
    arena_.erase(arena_.begin(), arena_.begin() + state_.lo);
    state_.hi -= state_.lo, state_.lo = 0;
  } else {
    arena_.clear();
  }
}

void UniqueItems::rewind(size_t size) {
  const std::vector<uint16_t> log(log_.begin(), log_.begin() + std::ptrdiff_t(size));
  while (!starts_.empty() && starts_.back() >= size) starts_.pop_back();
  const uint32_t start = starts_.empty() ? uint32_t(size) : starts_.back();
  if (!starts_.empty()) starts_.pop_back();
  log_.resize(start);
  out_.clear(), levels_.clear(), arena_.clear(), marks_.clear(), events_.clear();
  state_ = {};
  for (size_t i = start; i < size; ++i) {
    push(uint8_t(log[i]), log[i] & 256);
    commit();
  }
}

void UniqueItems::read(uint8_t byte, bool opens) {
  if (in_string()) return string_byte(byte);
  if (state_.mode == Mode::bare) {
    if (is_bare(byte)) return;
    end_bare();
  }
  if (is_space(byte)) return;
  switch (byte) {
    case '"': return begin_string();
    case '[': return open(true, opens);
    case '{': return open(false, false);
    case ']':
    case '}': return close();
    case ',': state_.mode = levels_.back().array ? Mode::value : Mode::key; return;
    case ':': state_.mode = Mode::value; return;
    default: state_.mode = Mode::bare, state_.start = uint32_t(log_.size() - 1);
  }
}

// ---- arrays and objects

void UniqueItems::open(bool array, bool unique) {
  Level level{array, unique, uint32_t(out_.size())};
  if (!levels_.empty()) level.all = level.left = targets(array ? kArray : kObject);
  begin_value(array ? kArray : kObject);
  levels_.push_back(std::move(level));
  events_.push_back({Event::opened});
  state_ = {array ? Mode::value : Mode::key};
}

void UniqueItems::close() {
  events_.push_back({Event::closed});
  Event& event = events_.back();
  Level& level = levels_.back();
  if (!level.array) sort_members(level, event);
  const Value value = level.begin;
  end_value(value);
  event.level = std::move(level);
  levels_.pop_back();
  state_ = {};
  if (!levels_.empty()) complete(value);
}

void UniqueItems::sort_members(Level& level, Event& event) {
  struct Member {
    Value key;
    uint32_t end;
  };
  std::vector<Member> members;
  for (Value at = level.begin + uint32_t(kHeader); at < out_.size();) {
    const Value end = next(next(at));
    members.push_back({at, end});
    at = end;
  }
  const auto before = [&](const Member& a, const Member& b) { return payload(a.key) < payload(b.key); };
  const auto not_before = [&](const Member& a, const Member& b) { return !before(a, b); };
  if (std::adjacent_find(members.begin(), members.end(), not_before) == members.end()) return;
  std::stable_sort(members.begin(), members.end(), before);
  std::string sorted;
  for (size_t i = 0; i < members.size(); ++i)
    if (i + 1 == members.size() || before(members[i], members[i + 1]))
      sorted.append(out_, members[i].key, members[i].end - members[i].key);
  event.region = out_.substr(level.begin);
  out_.replace(level.begin + kHeader, std::string::npos, sorted);
}

// Earlier values of this kind that the value which begins here may come to.
std::vector<UniqueItems::Value> UniqueItems::targets(char kind) const {
  const Level& level = levels_.back();
  work_ += level.items.size() + level.left.size();
  std::vector<Value> found;
  for (Value value : level.items)
    if (tag(value) == kind) found.push_back(value);
  for (Value value : level.left)
    if (const Value at = part(level, value); at != kNone && tag(at) == kind) found.push_back(at);
  return found;
}

// A part of the innermost array or object has ended.
void UniqueItems::complete(Value value) {
  Level& level = levels_.back();
  work_ += level.items.size() / 8;  // which move, where one comes in between
  events_.push_back({Event::completed});
  Event& event = events_.back();
  state_ = {};
  if (level.unique) {
    const auto at =
        std::lower_bound(level.items.begin(), level.items.end(), value, [&](Value a, Value b) { return less(a, b); });
    state_.duplicate = at != level.items.end() && equal(*at, value);
    if (!state_.duplicate) {
      event.inserted = uint32_t(at - level.items.begin());
      level.items.insert(at, value);
    }
  }
  if (!level.left.empty()) {
    std::vector<Value> left;
    for (Value earlier : level.left)
      if (const Value at = part(level, earlier); at != kNone && equal(at, value)) left.push_back(earlier);
    event.narrows = true;
    event.values = std::exchange(level.left, std::move(left));
  }
  ++level.count;
}

// ---- strings

void UniqueItems::begin_string() {
  const Level& level = levels_.back();
  const bool is_key = state_.mode == Mode::key;
  state_ = {Mode::text, is_key};
  state_.start = begin_value(kString);
  const auto by_payload = [&](Value a, Value b) { return payload(a) < payload(b); };
  if (!is_key && level.left.empty()) {
    const auto tagged = [&](char of) {
      return uint32_t(
          std::partition_point(level.items.begin(), level.items.end(), [&](Value value) { return tag(value) < of; }) -
          level.items.begin());
    };
    state_.lo = tagged(kString), state_.hi = tagged(kString + 1);
    return;
  }
  state_.in_arena = true;
  state_.lo = uint32_t(arena_.size());
  if (is_key) {
    // Objects of one array mostly have the same names in the same order.
    std::vector<Value> known;
    for (Value object : level.left) {
      size_t i = 0;
      for (Value at = object + uint32_t(kHeader); at < next(object); at = next(next(at)), ++i, ++work_)
        if (i >= known.size() || payload(known[i]) != payload(at)) known.push_back(at);
    }
    arena_.insert(arena_.end(), known.begin(), known.end());
  } else {
    const auto found = targets(kString);
    arena_.insert(arena_.end(), found.begin(), found.end());
  }
  std::sort(arena_.begin() + state_.lo, arena_.end(), by_payload);
  state_.hi = uint32_t(arena_.size());
  work_ += uint64_t(state_.hi - state_.lo) * 8;
}

void UniqueItems::string_byte(uint8_t byte) {
  switch (state_.mode) {
    case Mode::escape:
      if (byte == 'u') {
        state_.mode = Mode::hex, state_.digits = 4, state_.code = 0;
        return;
      }
      state_.mode = Mode::text;
      switch (byte) {
        case 'b': return append('\b');
        case 'f': return append('\f');
        case 'n': return append('\n');
        case 'r': return append('\r');
        case 't': return append('\t');
        default: return append(byte);
      }
    case Mode::hex:
      state_.code = state_.code << 4 | hex_digit(byte);
      if (--state_.digits == 0) state_.mode = Mode::text, code_unit(state_.code);
      return;
    default:
      if (byte == '"') return end_string();
      if (byte == '\\') {
        state_.mode = Mode::escape;
        return;
      }
      flush_surrogate();
      append_byte(char(byte));
  }
}

void UniqueItems::code_unit(uint32_t unit) {
  if (unit >= 0xDC00 && unit < 0xE000 && state_.surrogate != 0) {
    const uint32_t high = std::exchange(state_.surrogate, 0);
    return append(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00));
  }
  flush_surrogate();
  if (unit >= 0xD800 && unit < 0xDC00)
    state_.surrogate = unit;
  else
    append(unit);
}

// One that is alone is kept as if it were a character.
void UniqueItems::flush_surrogate() {
  if (state_.surrogate != 0) append(std::exchange(state_.surrogate, 0));
}

void UniqueItems::append(uint32_t c) {
  flush_surrogate();
  if (c < 0x80) return append_byte(char(c));
  if (c < 0x800) {
    append_byte(char(0xC0 | c >> 6));
  } else {
    if (c < 0x10000) {
      append_byte(char(0xE0 | c >> 12));
    } else {
      append_byte(char(0xF0 | c >> 18));
      append_byte(char(0x80 | (c >> 12 & 63)));
    }
    append_byte(char(0x80 | (c >> 6 & 63)));
  }
  append_byte(char(0x80 | (c & 63)));
}

void UniqueItems::append_byte(char byte) {
  const size_t at = out_.size() - state_.start - kHeader;
  out_.push_back(byte);
  if (state_.lo >= state_.hi) return;
  const auto& list = state_.in_arena ? arena_ : levels_.back().items;
  const auto key = [&](Value value) {
    const auto text = payload(value);
    return text.size() > at ? int(uint8_t(text[at])) : -1;
  };
  const auto first = list.begin() + state_.lo, last = list.begin() + state_.hi;
  const int wanted = uint8_t(byte);
  state_.lo =
      uint32_t(std::partition_point(first, last, [&](Value value) { return key(value) < wanted; }) - list.begin());
  state_.hi =
      uint32_t(std::partition_point(first, last, [&](Value value) { return key(value) <= wanted; }) - list.begin());
}

void UniqueItems::end_string() {
  flush_surrogate();
  end_value(state_.start);
  if (state_.is_key)
    end_key();
  else
    complete(state_.start);
}

void UniqueItems::end_key() {
  Level& level = levels_.back();
  const Value before = std::exchange(level.key, state_.start);
  state_ = {Mode::colon};
  if (level.all.empty()) return;
  // A name that came before takes its value's place.
  bool again = false;
  for (Value at = level.begin + uint32_t(kHeader); at < level.key && !again; at = next(next(at)))
    again = payload(at) == payload(level.key);
  std::vector<Value> left;
  for (Value earlier : again ? level.all : level.left)
    if (member(earlier, level.key) != kNone) left.push_back(earlier);
  events_.push_back({Event::named});
  events_.back().key = before;
  events_.back().values = std::exchange(level.left, std::move(left));
}

// ---- numbers and literals

UniqueItems::Bare UniqueItems::bare() const {
  std::string text;
  for (size_t i = state_.start; i < log_.size() && is_bare(uint8_t(log_[i])); ++i) text.push_back(char(log_[i]));
  if (text[0] != '-' && !(text[0] >= '0' && text[0] <= '9')) return {kLiteral, std::move(text)};
  double number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc::result_out_of_range) {
    const bool is_small =
        text.find("e-") != text.npos || text.find("E-") != text.npos || text.find("0.") == size_t(text[0] == '-');
    number = is_small ? 0 : text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  }
  const uint64_t bits = number == 0 ? 0 : std::bit_cast<uint64_t>(number);  // -0 is 0
  return {kNumber, std::string(reinterpret_cast<const char*>(&bits), sizeof bits)};
}

void UniqueItems::end_bare() {
  const auto [tag, payload] = bare();
  const Value value = begin_value(tag);
  out_ += payload;
  end_value(value);
  complete(value);
}

// ---- questions

bool UniqueItems::duplicate() const {
  if (levels_.empty() || !levels_.back().unique) return false;
  if (state_.mode != Mode::bare) return state_.mode == Mode::after && state_.duplicate;
  const auto& items = levels_.back().items;
  if (items.empty()) return false;
  const auto [kind, text] = bare();
  const auto at = std::partition_point(items.begin(), items.end(), [&, &kind = kind, &text = text](Value value) {
    return tag(value) != kind ? tag(value) < kind : payload(value) < text;
  });
  return at != items.end() && tag(*at) == kind && payload(*at) == text;
}

bool UniqueItems::may_repeat() const {
  if (levels_.empty()) return false;
  const Level& level = levels_.back();
  switch (state_.mode) {
    case Mode::text:
    case Mode::escape:
    case Mode::hex: return state_.lo < state_.hi;
    case Mode::value:
    case Mode::bare: return !level.items.empty() || !level.left.empty();
    default: return !level.left.empty();
  }
}

bool UniqueItems::is_settled() const {
  if (levels_.empty() || state_.mode != Mode::bare) return false;
  if (log_.size() - state_.start > kLongNumber) return true;
  bool is_raised = false;
  for (size_t i = state_.start; i < log_.size(); ++i) is_raised |= (log_[i] | 32) == 'e';
  if (!is_raised) return false;
  const auto [tag, payload] = bare();
  return tag == kNumber && payload == std::string(sizeof(double), '\0');
}

uint32_t UniqueItems::repeating() const {
  if (!may_repeat()) return kNone;
  for (uint32_t i = 0; i + 1 < levels_.size(); ++i)
    if (levels_[i].unique && !levels_[i].items.empty() && !levels_[i + 1].left.empty()) return i;
  return uint32_t(levels_.size()) - 1;
}

}  // namespace anneal::grammar
