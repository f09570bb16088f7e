// Which tokens are permitted in one state of one rule, whoever called the rule: the part of a mask that grammars can
// share. Where too much can follow the rule itself, the rule that called it is taken with it, and "the rule" below is
// that one.
#pragma once
#include <bitset>
#include <memory>

#include "configurations.h"
#include "resumable.h"
#include "vocabulary.h"

namespace anneal::grammar {

struct LocalMask {
  // Tokens that end inside the rule or where it ends: bits if there are many, else a list.
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
  uint64_t walked = 0;  // nodes of the vocabulary that were looked at to make it

  size_t memory() const {
    return sizeof(LocalMask) + bits.capacity() * 4 + tokens.capacity() * 4 + exits.capacity() * sizeof(Exit) +
           nodes.capacity() * 4;
  }
};

using Bytes = std::bitset<256>;

// Walks the vocabulary from a configuration of Configurations::alone(). `follow`: null, all exits are kept, and if they
// are more than `max_exits`, the mask is partial and holds nothing; else those of these bytes. `slice`: its tokens are
// permitted, and none of them leads to an exit that is asked for; null: there is none. What is named here stays until
// the mask is made.
Resumable<std::shared_ptr<const LocalMask>> make_local_mask(const Vocabulary& vocabulary,
                                                            Configurations& configurations, Pauses& pauses,
                                                            uint32_t from, const Bytes* follow, size_t max_exits,
                                                            const Slice* slice);

// One that holds nothing.
std::shared_ptr<const LocalMask> too_many_exits();

}  // namespace anneal::grammar
