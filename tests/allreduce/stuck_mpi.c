/* SPDX-License-Identifier: Apache-2.0 */
/* stuck_mpi.c - an Open MPI in which nobody answers: whatever is begun never ends. */
#include <stdio.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))
#define CALL(name, arguments)                                                                      \
    SHOWN int MPI_##name arguments;                                                                \
    SHOWN int MPI_##name arguments

SHOWN extern int ompi_mpi_comm_world, ompi_mpi_byte, ompi_mpi_errors_return;
SHOWN int ompi_mpi_comm_world, ompi_mpi_byte, ompi_mpi_errors_return;

CALL(Get_library_version, (char *version, int *n))
{
    *n = sprintf(version, "Open MPI v4.1.4, stuck");
    return 0;
}

CALL(Initialized, (int *was))
{
    *was = 1;
    return 0;
}

CALL(Finalized, (int *was))
{
    *was = 0;
    return 0;
}

CALL(Init_thread, (int *argc, char ***argv, int asked, int *level))
{
    (void)argc;
    (void)argv;
    *level = asked;
    return 0;
}

CALL(Query_thread, (int *level))
{
    *level = 3;
    return 0;
}

CALL(Finalize, (void))
{
    return 0;
}

CALL(Error_string, (int error, char *text, int *n))
{
    *n = sprintf(text, "error %d", error);
    return 0;
}

CALL(Comm_rank, (void *comm, int *rank))
{
    (void)comm;
    *rank = 0;
    return 0;
}

CALL(Comm_size, (void *comm, int *n))
{
    (void)comm;
    *n = 2;
    return 0;
}

CALL(Comm_idup, (void *comm, void **copy, void **request))
{
    *copy = comm;
    *request = comm;
    return 0;
}

CALL(Comm_set_errhandler, (void *comm, void *handler))
{
    (void)comm;
    (void)handler;
    return 0;
}

CALL(Comm_free, (void **comm))
{
    *comm = NULL;
    return 0;
}

CALL(Iallgather, (const void *from, int n, void *type, void *to, int n_to, void *type_to,
                  void *comm, void **request))
{
    (void)from;
    (void)n;
    (void)type;
    (void)to;
    (void)n_to;
    (void)type_to;
    *request = comm;
    return 0;
}

CALL(Isend, (const void *from, int n, void *type, int rank, int tag, void *comm, void **request))
{
    (void)from;
    (void)n;
    (void)type;
    (void)rank;
    (void)tag;
    *request = comm;
    return 0;
}

CALL(Irecv, (void *to, int n, void *type, int rank, int tag, void *comm, void **request))
{
    (void)to;
    (void)n;
    (void)type;
    (void)rank;
    (void)tag;
    *request = comm;
    return 0;
}

CALL(Testall, (int n, void **requests, int *done, void *states))
{
    (void)n;
    (void)requests;
    (void)states;
    *done = 0;
    return 0;
}
