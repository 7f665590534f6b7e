/* What programs of S-Net's public runtimes share here: boxes that work as long as the tag <n> says, and combinators. */
#include "C4SNet.h"
#include "distribution.h"
#include "handle.h"
#include "list.h"
#include "networkinterface.h"
#include "out.h"
#include "record.h"
#include "snetentities.h"
#include "variant.h"

static char *interfaces[] = {"C4SNet"};
static volatile double sink;

static void spin(double rounds) {
  double sum = 0;
  for (long i = 0; i < (long)rounds; i++) sum += i * 0.5;
  sink = sum;
}

static int take_tag(snet_handle_t *handle, int label) { return SNetRecTakeTag(SNetHndGetRecord(handle), label); }
static snet_handle_t *keep(snet_handle_t *handle) { return handle; }

#define TAGS(...) SNetIntListCreate(__VA_ARGS__)
#define BOX(name, ...)                                                                       \
  static snet_stream_t *net_##name(snet_stream_t *in, snet_info_t *info, int place) {        \
    return SNetBox(in, info, place, #name, name, keep, keep, keep, SNetIntListListCreate(__VA_ARGS__)); \
  }
#define SERIAL(name, first, second)                                                     \
  static snet_stream_t *net_##name(snet_stream_t *in, snet_info_t *info, int place) {   \
    return SNetSerial(in, info, place, net_##first, net_##second);                      \
  }
#define TAGGED(label) \
  SNetVariantListCreate(1, SNetVariantCreate(SNetIntListCreate(0), SNetIntListCreate(1, label), SNetIntListCreate(0)))
#define MAIN(network)                                                                 \
  int main(int argc, char **argv) {                                                   \
    C4SNetInit(0, nodist);                                                            \
    return SNetInRun(argc, argv, labels, N_LABELS, interfaces, 1, net_##network);     \
  }
