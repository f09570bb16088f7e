// A page of a layer and a key-value head: 64 keys as [head_dim / kGranule][64] granules over the elements of a head, then
// their values as [64 / kGranule][head_dim] granules over the keys.
const int kPage = 64;

int key_granules(int head_dim) { return round_up(head_dim, kGranule) / kGranule * kPage; }
int page_granules(int head_dim) { return key_granules(head_dim) + kPage / kGranule * head_dim; }
