/* The network of relay.snet: five boxes one after the other, of unequal work. */
#include "boxes.h"

enum { L_NONE, L_n, N_LABELS };
char *labels[] = {"_none_", "n"};

#define WORKS(name, rounds)                            \
  static snet_handle_t *name(snet_handle_t *handle) {  \
    int n = take_tag(handle, L_n);                     \
    spin((rounds)*n);                                  \
    C4SNetOut(handle, 1, n);                           \
    return handle;                                     \
  }                                                    \
  BOX(name, 1, TAGS(2, tag, L_n))
WORKS(fetch, 170.0)
WORKS(parse, 410.0)
WORKS(solve, 930.0)
WORKS(check, 290.0)
WORKS(store, 560.0)
SERIAL(last, check, store)
SERIAL(late, solve, last)
SERIAL(rest, parse, late)
SERIAL(relay, fetch, rest)
MAIN(relay)
