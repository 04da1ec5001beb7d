/* costmodel/collective-private.h - what an algorithm sees of a group, and what it is. */
#pragma once
#include "costmodel/collective.h"
G_BEGIN_DECLS

typedef enum { COST_PROTOCOL_LOW, COST_PROTOCOL_BULK, COST_PROTOCOL_N_KINDS } CostProtocol;

/* n ranks in k domains, g = n/k of them in each (the smallest where they differ). */
typedef struct {
  double n, k, g;
  double base_s;
  double hop_s, network_hop_s;
  double link_s_per_byte;            /* 1/B: achieved, inside the domain; unused when g = 1 */
  double network_s_per_byte;         /* 1/N: achieved, one GPU's NIC; INFINITY when unknown */
  double delta;                      /* local copy or reduction of a ring, in wire steps */
  double alltoall_delta;             /* the same of an all-to-all */
  double alltoall_shared_s_per_byte; /* of what a member sends inside: a shared link; 0 none */
  double alltoall_steps;
  double nvls_latency_s;
  double nvls_share;       /* 0: no NVLS for this group */
  double bulk_shard_bytes; /* 0: one protocol for all sizes */
  gboolean flat;           /* NCCL before 2.9: all-reduce trees without the hierarchical floor */
  CostProtocol protocol;   /* the one asked for */
  const CostCollectiveNumbers *numbers;
} CostWire;

/* An algorithm: a name and one function. */
typedef struct {
  const char *name;         /* the word of nccl-tests' data files */
  const char *network_name; /* the word when it crosses domains */
  /* FALSE if it does not do @kind over such a group in wire->protocol; else fills @way. */
  gboolean (*price) (const CostWire *wire, ModelCollectiveKind kind, CostWay *way);
} CostAlgorithm;

extern const CostAlgorithm cost_algorithm_ring;
extern const CostAlgorithm cost_algorithm_tree;
extern const CostAlgorithm cost_algorithm_nvls;
extern const CostAlgorithm cost_algorithm_alltoall;
extern const CostAlgorithm cost_algorithm_p2p;

void cost_wire_init (CostWire *wire, const CostNumbers *numbers, const TopoGroupShape *shape);
/* Two protocols can be told apart. */
gboolean cost_wire_has_protocols (const CostWire *wire);
/*
 * @wire as wire->protocol leaves it, where it has two: low latency has @low_ratio of the bandwidth,
 * bulk pays its base and @bulk_hop_ratio of the hop. @way gets its name and its range of bytes,
 * divided at @bulk_from_bytes.
 */
CostWire cost_wire_in_protocol (const CostWire *wire, double low_ratio, double bulk_hop_ratio,
                                double bulk_from_bytes, CostWay *way);
/*
 * Latency and wire time from step and byte counts: @steps inside the domain, @network_steps
 * between; @bytes over a GPU's links and @network_bytes over its NIC, per byte of message. The
 * slower of the two wires sets the pace. @fill_ratio: c of collective.h.
 */
void cost_way_set (CostWay *way, const CostWire *wire, double steps, double bytes,
                   double network_steps, double network_bytes, double fill_ratio);
/* In the low-latency protocols, after cost_way_set(): a hop that carries data takes longer. */
void cost_way_set_rise (CostWay *way, const CostWire *wire);
/* c of an all-reduce or all-to-all: of NVLink's protocols, or of one protocol for all sizes. */
double cost_wire_fill (const CostWire *wire);
G_END_DECLS
