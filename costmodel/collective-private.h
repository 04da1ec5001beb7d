/* costmodel/collective-private.h - what an algorithm sees of a group, and what it is. */
#pragma once
#include "costmodel/collective.h"
G_BEGIN_DECLS

/* n ranks in k domains, g = n/k of them in each (the smallest where they differ). */
typedef struct {
  double n, k, g;
  double base_s;
  double hop_s, network_hop_s;
  double link_s_per_byte;    /* 1/B: achieved, inside the domain; unused when g = 1 */
  double network_s_per_byte; /* 1/N: achieved, one GPU's NIC; INFINITY when unknown */
  double delta;              /* local copy or reduction, in wire steps */
  double alltoall_steps;
  double nvls_latency_s;
  double nvls_share; /* 0: no NVLS for this group */
} CostWire;

/* An algorithm: a name and one function. */
typedef struct {
  const char *name;         /* the word of nccl-tests' data files */
  const char *network_name; /* the word when it crosses domains */
  /* FALSE if it does not do @kind over such a group; else fills base, latency, wire of @way. */
  gboolean (*price) (const CostWire *wire, ModelCollectiveKind kind, CostWay *way);
} CostAlgorithm;

extern const CostAlgorithm cost_algorithm_ring;
extern const CostAlgorithm cost_algorithm_tree;
extern const CostAlgorithm cost_algorithm_nvls;
extern const CostAlgorithm cost_algorithm_alltoall;
extern const CostAlgorithm cost_algorithm_p2p;

/*
 * Latency and wire time from step and byte counts: @steps inside the domain, @network_steps
 * between; @bytes over a GPU's links and @network_bytes over its NIC, per byte of message. The
 * slower of the two wires sets the pace.
 */
void cost_way_set (CostWay *way, const CostWire *wire, double steps, double bytes,
                   double network_steps, double network_bytes);
G_END_DECLS
