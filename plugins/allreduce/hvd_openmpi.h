/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_openmpi.h - Open MPI, opened at run time: the only place that touches MPI. Nothing of it is needed
 * to build; types and constants are those of its binary interface, libmpi.so.40 (Open MPI 4). */
#ifndef HVD_OPENMPI_H
#define HVD_OPENMPI_H

#include <kvstore/plugin.h>

#include <stdbool.h>

typedef void *hvd_mpi_comm_t;
typedef void *hvd_mpi_type_t;
typedef void *hvd_mpi_request_t;

enum {
    HVD_MPI_SUCCESS = 0,
    HVD_MPI_THREAD_SERIALIZED = 2,
    HVD_MPI_THREAD_MULTIPLE = 3,
    HVD_MPI_TEXT_BYTES = 256 /* MPI_MAX_LIBRARY_VERSION_STRING and MPI_MAX_ERROR_STRING */
};

#define HVD_MPI_FUNCTIONS(X)                                                                       \
    X(Get_library_version, (char *, int *))                                                        \
    X(Initialized, (int *))                                                                        \
    X(Finalized, (int *))                                                                          \
    X(Init_thread, (int *, char ***, int, int *))                                                  \
    X(Query_thread, (int *))                                                                       \
    X(Finalize, (void))                                                                            \
    X(Error_string, (int, char *, int *))                                                          \
    X(Comm_rank, (hvd_mpi_comm_t, int *))                                                          \
    X(Comm_size, (hvd_mpi_comm_t, int *))                                                          \
    X(Comm_idup, (hvd_mpi_comm_t, hvd_mpi_comm_t *, hvd_mpi_request_t *))                          \
    X(Comm_set_errhandler, (hvd_mpi_comm_t, void *))                                               \
    X(Comm_free, (hvd_mpi_comm_t *))                                                               \
    X(Iallgather, (const void *, int, hvd_mpi_type_t, void *, int, hvd_mpi_type_t, hvd_mpi_comm_t, \
                   hvd_mpi_request_t *))                                                           \
    X(Isend, (const void *, int, hvd_mpi_type_t, int, int, hvd_mpi_comm_t, hvd_mpi_request_t *))   \
    X(Irecv, (void *, int, hvd_mpi_type_t, int, int, hvd_mpi_comm_t, hvd_mpi_request_t *))         \
    X(Testall, (int, hvd_mpi_request_t *, int *, void *))

typedef struct hvd_openmpi {
#define HVD_MPI_MEMBER(name, arguments) int(*name) arguments;
    HVD_MPI_FUNCTIONS(HVD_MPI_MEMBER)
#undef HVD_MPI_MEMBER
    hvd_mpi_comm_t world;
    hvd_mpi_type_t byte;
    void *errors_return;
    char version[HVD_MPI_TEXT_BYTES]; /* "Open MPI v4.1.4" */
    bool is_ours;                     /* initialised here, and finalised here */
} hvd_openmpi_t;

/* Open it, which waits for nobody. ERR_UNAVAILABLE: it is not there, or another family's is, or this process
 * was not started by mpirun: the text names the package. Kept until the process ends. */
kvs_status_t hvd_openmpi_load(const char *library);
#define HVD_OPENMPI_TEXT_BYTES 1024
/* For people: its version and file, or why there is none. It stays open, and nothing of it is used. */
const char *hvd_openmpi_text(const char *library, char text[HVD_OPENMPI_TEXT_BYTES]);
/* The one that is loaded, initialised unless the program has: this waits for all workers. ERR_STATE: the
 * program has initialised it for less than one thread at a time. */
kvs_status_t hvd_openmpi_get(const hvd_openmpi_t **ret_mpi);
/* Whether it can still be used: the program may have finalised what it has initialised. */
bool hvd_openmpi_is_there(const hvd_openmpi_t *mpi);
/* At the end of the process. */
void hvd_openmpi_finalize(void);

/* KVS_OK, or ERR_PEER with what MPI says. */
kvs_status_t hvd_openmpi_check(const hvd_openmpi_t *mpi, int error, const char *what);

#endif
