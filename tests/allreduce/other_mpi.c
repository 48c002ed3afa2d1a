/* SPDX-License-Identifier: Apache-2.0 */
/* other_mpi.c - a library of another family than Open MPI, as far as anybody asks it. */
#include <stdio.h>

__attribute__((visibility("default"))) int MPI_Get_library_version(char *version, int *n);

int MPI_Get_library_version(char *version, int *n)
{
    *n = sprintf(version, "MPICH Version:\t4.0.2\nMPICH Release date: none");
    return 0;
}
