/* SPDX-License-Identifier: Apache-2.0 */
/* job_horovod_hosts.c - a job over hosts that are network namespaces, under mpirun. MPI belongs to the
 * program here: it is initialised before the process moves to its namespace, KVS_TEST_NETNS_A, or _B for
 * the last worker. */
#include "crew.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static void want_sums(const crew_t *crew, int64_t n, int dtype)
{
    uint16_t *halves = calloc((size_t)n, 2);
    float *floats = calloc((size_t)n, 4);
    void *value = dtype == KVS_DTYPE_float32 ? (void *)floats : (void *)halves;
    int64_t n_wrong = 0;

    for (int64_t i = 0; i < n; i++) {
        floats[i] = (float)(i % 100 + crew->rank);
        halves[i] = 0x3C00; /* 1 */
    }
    KT_OK(crew_sum(crew, kvs_key_int(n), dtype, n, value, NULL, NULL));
    for (int64_t i = 0; i < n; i++) {
        n_wrong += dtype == KVS_DTYPE_float32
                       ? floats[i] != (float)(crew->n * (i % 100) + crew->n * (crew->n - 1) / 2)
                       : halves[i] != (crew->n == 2   ? 0x4000
                                       : crew->n == 3 ? 0x4200
                                                      : 0x4400);
    }
    KT_INT(n_wrong, 0);
    free(floats);
    free(halves);
}

static void hosts_first_then_mpi(void)
{
    crew_t crew;
    int local_rank = -1;
    float value[2], out[2] = {0, 0};

    kt_stderr_begin();
    crew = crew_open(NULL, 0);
    KT_HAS(kt_stderr_end(), "engine mpi: worker ");
    KT_OK(kvs_store_local_rank(crew.store, &local_rank));
    KT_INT(local_rank, crew.rank == crew.n - 1 ? 0 : crew.rank);
    for (int64_t n = 0; n < 3000000; n = n * 13 + 1) {
        want_sums(&crew, n, KVS_DTYPE_float32);
        want_sums(&crew, n, KVS_DTYPE_float16);
    }
    value[0] = crew.rank == 0 ? 5 : 0.0f / 0.0f;
    value[1] = (float)crew.rank;
    KT_OK(crew_broadcast(&crew, kvs_key_int(-1), KVS_DTYPE_float32, 2, value, out, NULL));
    KT_REAL(out[0], 5);
    KT_REAL(out[1], 0);
    crew_works(&crew, kvs_key_int(-2));
    /* who has joined has no part, whatever its host */
    for (int step = 0; step <= crew.rank; step++) {
        float sum = 0;

        KT_OK(crew_sum1(&crew, kvs_key_int(-3), 1, &sum));
        KT_REAL(sum, crew.n - step);
    }
    KT_OK(kvs_store_join(crew.store));
    crew_close(&crew);
}

static const kt_test_t tests[] = {KT_TEST(hosts_first_then_mpi)};

static int move(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    int is_last = rank != NULL && size != NULL && atoi(rank) == atoi(size) - 1;
    const char *path = getenv(is_last ? "KVS_TEST_NETNS_B" : "KVS_TEST_NETNS_A");
    int fd = path == NULL ? -1 : open(path, O_RDONLY);

    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        perror("the namespace");
        return -1;
    }
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    int (*init)(int *, char ***, int, int *), (*finalize)(void), level = 0, status;
    void *library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);

    if (library == NULL) {
        fprintf(stderr, "skipped: %s\n", dlerror());
        return 77;
    }
    *(void **)&init = dlsym(library, "MPI_Init_thread");
    *(void **)&finalize = dlsym(library, "MPI_Finalize");
    if (init(NULL, NULL, 3, &level) != 0 || move() != 0) {
        return 1;
    }
    status = kt_run("job_horovod_hosts", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    finalize();
    return status;
}
