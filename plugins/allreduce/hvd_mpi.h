/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_mpi.h - the engine mpi: exchanges between hosts by MPI, after what is on one host has been brought
 * together through shared memory. Where there is one host only, or no shared memory, every worker counts
 * as a host. Sums between hosts are taken in order of their lowest workers. */
#ifndef HVD_MPI_H
#define HVD_MPI_H

#include "ar_group.h"

typedef struct hvd_mpi hvd_mpi_t;

/* `group`: the workers of this host, or NULL: every worker is a host. All workers call it, when all have
 * loaded MPI, whose MPI_Init_thread knows no deadline for those who don't come; the rest has
 * `rendezvous_ms`, negative: for ever. `is_over`: the job has failed: nothing is waited for any more.
 * Errors as hvd_openmpi_get; ERR_ARGUMENT: MPI counts other workers than the job. ERR_TIMEOUT. */
kvs_status_t hvd_mpi_open(kvs_net_node_t *node, ar_group_t *group, int64_t rendezvous_ms,
                          bool (*is_over)(void *arg), void *arg, hvd_mpi_t **ret_mpi);
void hvd_mpi_close(hvd_mpi_t *mpi);                /* NULL does nothing */
const char *hvd_mpi_version(const hvd_mpi_t *mpi); /* "Open MPI v4.1.4" */
int hvd_mpi_n_hosts(const hvd_mpi_t *mpi);

/* As in ar_group.h, but members and root are ranks. On one thread. */
kvs_status_t hvd_mpi_reduce(hvd_mpi_t *mpi, const ar_party_t *party, int reduce,
                            const ar_data_t *data);
kvs_status_t hvd_mpi_broadcast(hvd_mpi_t *mpi, const ar_party_t *party, int root,
                               const ar_data_t *data);

#endif
