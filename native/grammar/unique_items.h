// The arrays of an output whose items must differ: which values have come, and which of them the one that is being
// written may still come to.
//
// What follows the output is JSON, read here byte by byte beside the grammar. Values are kept in a form that is the
// same for equal ones: escapes are resolved, numbers are what double precision reads them as, and the members of
// objects are sorted, of names that come twice the last.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anneal::grammar {

class UniqueItems {
 public:
  // An array of different items is open; while none is, nothing is read.
  bool active() const { return !levels_.empty(); }
  // The next byte. `opens`: it opens an array of different items.
  void push(uint8_t byte, bool opens);
  // Takes back the last push() since commit().
  void undo();
  void commit();
  // Bytes that were read.
  size_t size() const { return log_.size(); }
  // To where so many were.
  void rewind(size_t size);

  // The item that ends here is equal to an earlier one.
  bool duplicate() const;
  // What is being written may still become equal to an earlier item.
  bool may_repeat() const;
  bool in_string() const { return state_.mode >= Mode::text; }
  // A number that further digits hardly make another one.
  bool is_settled() const;
  // The outermost array whose item may still become equal to an earlier one; kNone: there is none.
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t repeating() const;
  uint32_t depth() const { return uint32_t(levels_.size()); }
  // The item that was being written in this array has ended.
  bool is_past(uint32_t level) const {
    return levels_.size() <= level || (levels_.size() == level + 1 && state_.mode == Mode::after);
  }
  // Steps, as a Turn counts them, that reading has taken so far.
  uint64_t work() const { return work_; }
  size_t memory() const { return out_.capacity() + log_.capacity() * 2 + arena_.capacity() * 4; }

 private:
  enum class Mode : uint8_t { value, key, colon, after, bare, text, escape, hex };
  enum Tag : char { kLiteral, kNumber, kString, kArray, kObject };
  // Values are named by where they stand in out_: a tag, the length of what follows, and the text, the items, or the
  // names and members.
  using Value = uint32_t;
  static constexpr size_t kHeader = 5;

  struct Level {
    bool array, unique;
    uint32_t begin;  // in out_
    uint32_t count = 0;
    Value key = kNone;
    std::vector<Value> items;  // of different items: sorted
    std::vector<Value> all;    // earlier values that this one may have come to when it was opened,
    std::vector<Value> left;   // and may still come to
  };
  struct State {
    Mode mode = Mode::after;
    bool is_key = false, duplicate = false, in_arena = false;
    uint8_t digits = 0;       // of an escape that are still to come
    uint32_t code = 0;        // of the escape
    uint32_t surrogate = 0;   // the first of two
    uint32_t start = 0;       // of a string, in out_; of a number or literal, in log_
    uint32_t lo = 0, hi = 0;  // strings that begin like this one: in the level's items, or in arena_
  };
  struct Mark {
    State state;
    uint32_t out, arena, events, log, starts;
  };
  // What undo() cannot read off sizes.
  struct Event {
    enum Kind : uint8_t { opened, closed, completed, named } kind;
    bool narrows = false;       // completed: `values` counts
    uint32_t inserted = kNone;  // completed: where in the items
    Value key = kNone;          // named: the one before
    std::vector<Value> values;  // what was left before
    Level level{};              // closed
    std::string region;         // closed: an object before it was sorted
  };

  char tag(Value value) const { return out_[value]; }
  uint32_t length(Value value) const;
  std::string_view payload(Value value) const { return std::string_view(out_).substr(value + kHeader, length(value)); }
  Value next(Value value) const { return value + uint32_t(kHeader) + length(value); }
  bool equal(Value a, Value b) const { return tag(a) == tag(b) && payload(a) == payload(b); }
  bool less(Value a, Value b) const;
  Value item(Value array, uint32_t index) const;
  Value member(Value object, Value key) const;
  // What stands in an earlier value where this level's next part does.
  Value part(const Level& level, Value value) const {
    return level.array ? item(value, level.count) : member(value, level.key);
  }
  Value begin_value(char tag);
  void end_value(Value value);

  void read(uint8_t byte, bool opens);
  void open(bool array, bool unique);
  void close();
  void sort_members(Level& level, Event& event);
  void begin_string();
  void string_byte(uint8_t byte);
  void code_unit(uint32_t unit);
  void flush_surrogate();
  void append(uint32_t code_point);
  void append_byte(char byte);
  void end_string();
  void end_key();
  void end_bare();
  struct Bare {
    char tag;
    std::string payload;
  };
  Bare bare() const;
  void complete(Value value);
  std::vector<Value> targets(char tag) const;
  void revert(Event& event);

  mutable uint64_t work_ = 0;
  std::string out_;
  std::vector<Level> levels_;
  State state_;
  std::vector<Value> arena_;      // lists of strings that strings may come to
  std::vector<uint16_t> log_;     // bytes that were read; 256 added to those that open an array of different items
  std::vector<uint32_t> starts_;  // in log_, of outermost arrays
  std::vector<Mark> marks_;
  std::vector<Event> events_;
};

}  // namespace anneal::grammar
