// What arrays of different items take away from masks: tokens after which an item would be equal to an earlier one, or
// could only become so.
#pragma once
#include <vector>

#include "configurations.h"
#include "mask.h"
#include "resumable.h"
#include "unique_items.h"
#include "vocabulary.h"

namespace anneal::grammar {

// The configuration after a byte, which `items` reads as well; kDead, and `items` has not read it: it may not follow.
uint32_t unique_step(Configurations& configurations, uint32_t from, uint8_t byte, UniqueItems& items);

// Whether the item being written can still become another than all earlier ones. `items` is left as it is.
bool can_differ(Configurations& configurations, uint32_t configuration, UniqueItems& items);

// Takes out of a configuration's mask what earlier items rule out, in turns. What is named here stays until it is done.
class UniqueRestriction {
 public:
  UniqueRestriction(const Vocabulary& vocabulary, Configurations& configurations, uint32_t configuration);

  // Whether it is done. `items` and `mask` are the same in each turn; `items` is left as it is.
  bool go_on(UniqueItems& items, Mask& mask, Turn& turn);

 private:
  void walk(UniqueItems& items, Mask& mask, Turn& turn);
  void forbid_named(UniqueItems& items, Mask& mask, Turn& turn);

  const Vocabulary& vocabulary_;
  Configurations& configurations_;
  const uint32_t configuration_;
  std::vector<int32_t> named_;  // tokens that the grammar names, and are still to be looked at
  // By depth in the vocabulary.
  struct Place {
    uint32_t configuration;
    bool differs;  // from where it would be without earlier items
    // As the items have read it:
    uint8_t byte = 0;
    bool opens = false;
  };
  std::vector<Place> path_;
  uint32_t depth_ = 0, next_ = 1;  // the node to come
};

}  // namespace anneal::grammar
