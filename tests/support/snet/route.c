/* The network of route.snet: a choice, one branch of which has two boxes; records with <kind> 1 go there. */
#include "boxes.h"

enum { L_NONE, L_n, L_kind, L_plain, L_hard, L_half, L_ready, N_LABELS };
char *labels[] = {"_none_", "n", "kind", "plain", "hard", "half", "ready"};

static snet_handle_t *enter(snet_handle_t *handle) {
  int n = take_tag(handle, L_n), kind = take_tag(handle, L_kind);
  spin(240.0 * n);
  C4SNetOut(handle, kind ? 2 : 1, n, 1);
  return handle;
}
#define WORKS(name, from, rounds)                      \
  static snet_handle_t *name(snet_handle_t *handle) {  \
    int n = take_tag(handle, L_n);                     \
    take_tag(handle, from);                            \
    spin((rounds)*n);                                  \
    C4SNetOut(handle, 1, n, 1);                        \
    return handle;                                     \
  }
WORKS(quick, L_plain, 620.0)
WORKS(deep, L_hard, 1500.0)
WORKS(trim, L_half, 700.0)
static snet_handle_t *leave(snet_handle_t *handle) {
  int n = take_tag(handle, L_n);
  take_tag(handle, L_ready);
  spin(330.0 * n);
  C4SNetOut(handle, 1, n);
  return handle;
}
BOX(enter, 2, TAGS(4, tag, L_n, tag, L_plain), TAGS(4, tag, L_n, tag, L_hard))
BOX(quick, 1, TAGS(4, tag, L_n, tag, L_ready))
BOX(deep, 1, TAGS(4, tag, L_n, tag, L_half))
BOX(trim, 1, TAGS(4, tag, L_n, tag, L_ready))
BOX(leave, 1, TAGS(2, tag, L_n))
SERIAL(long, deep, trim)
static snet_stream_t *net_branches(snet_stream_t *in, snet_info_t *info, int place) {
  snet_variant_list_list_t *types = SNetVariantListListCreate(2, TAGGED(L_plain), TAGGED(L_hard));
  return SNetParallel(in, info, place, types, net_quick, net_long);
}
SERIAL(late, branches, leave)
SERIAL(route, enter, late)
MAIN(route)
