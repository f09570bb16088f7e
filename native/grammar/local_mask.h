// Which tokens are permitted in one state of one rule, whoever called the rule: the part of a mask that grammars can
// share. Where too much can follow the rule itself, the rule that called it is taken with it, and "the rule" below is
// that one.
#pragma once
#include <bitset>
#include <memory>
#include <string>

#include "configurations.h"
#include "vocabulary.h"

namespace anneal::grammar {

struct LocalMask {
  // Tokens that end inside the rule or where it ends: bits if there are many, else a sorted list.
  std::vector<uint32_t> bits;
  std::vector<int32_t> tokens;
  // Places in the vocabulary where the rule has ended and a token goes on: for each byte it goes on with, the nodes
  // after that byte.
  struct Exit {
    uint8_t byte;
    uint32_t end;    // in nodes; the exits of a byte begin where those of the byte before end
    uint64_t below;  // nodes in all of their subtrees
  };
  std::vector<Exit> exits;
  std::vector<uint32_t> nodes;
  // Exits were too many to keep them all: only those of `asked` are here; nothing at all where that is empty.
  bool partial = false;
  std::bitset<256> asked;

  size_t memory() const {
    return sizeof(LocalMask) + bits.capacity() * 4 + tokens.capacity() * 4 + exits.capacity() * sizeof(Exit) +
           nodes.capacity() * 4;
  }
};

using Bytes = std::bitset<256>;

// A mask of another state that behaves the same for the first Vocabulary::kSteps[step] bytes.
struct Like {
  std::shared_ptr<const LocalMask> mask;
  size_t step = 0;
};

// Walks the vocabulary from a configuration of Configurations::alone(). `follow`: null, all exits are kept, and if they
// are more than `max_exits`, the mask is partial and holds nothing; else those of these bytes. With `like` (of the
// same follow), only tokens longer than it is good for are walked.
std::shared_ptr<const LocalMask> make_local_mask(const Vocabulary& vocabulary, Configurations& configurations,
                                                 uint32_t from, const Bytes* follow, size_t max_exits,
                                                 const Like& like);

// The mask of another such configuration, made for the same `follow`, that goes on as this one after most bytes.
struct Beside {
  uint32_t from;
  std::shared_ptr<const LocalMask> mask;
};

// Walks only what differs from the other mask.
std::shared_ptr<const LocalMask> make_local_mask(const Vocabulary& vocabulary, Configurations& configurations,
                                                 uint32_t from, const Bytes* follow, size_t max_exits,
                                                 const Beside& beside);

// Describes all of the network that the next `bytes` bytes after a state can meet: equal descriptions, equal local
// masks. Empty: too long.
std::string describe(const Network& network, int32_t state, int bytes);

}  // namespace anneal::grammar
