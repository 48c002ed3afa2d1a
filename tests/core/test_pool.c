/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of four threads: loops cover their range once, whoever calls them; works run once. */
#include "pool.h"
#include "kt.h"
#include "threads.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { THREADS = 4 };

/* ---- Loops ----------------------------------------------------------------------------------- */

typedef struct cover {
    atomic_uchar *visits;
    int64_t n, grain;
    atomic_int n_wrong; /* pieces that begin elsewhere or leave the range */
} cover_t;

static void visit(void *arg, int64_t begin, int64_t end)
{
    cover_t *cover = arg;

    if (begin < 0 || begin >= end || end > cover->n || begin % cover->grain != 0) {
        atomic_fetch_add(&cover->n_wrong, 1);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        atomic_fetch_add_explicit(&cover->visits[i], 1, memory_order_relaxed);
    }
}

/* How many of [0, n) were not visited exactly once, and pieces that were wrong. */
static int64_t run_cover(int64_t n, int64_t grain)
{
    cover_t cover = {calloc((size_t)n + 1, sizeof(atomic_uchar)), n, grain < 1 ? 1 : grain, 0};
    int64_t n_wrong = 0;

    kvsi_pool_parallel_for(n, grain, visit, &cover);
    for (int64_t i = 0; i < n; i++) {
        n_wrong += cover.visits[i] != 1;
    }
    free(cover.visits);
    return n_wrong + cover.n_wrong;
}

static void a_loop_covers_its_range_exactly_once_in_multiples_of_its_grain(void)
{
    static const int64_t sizes[] = {1, 2, 7, 16, 17, 1000, 4096, 100003};
    static const int64_t grains[] = {-1, 0, 1, 3, 64, 999, 5000, INT64_MAX};

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (size_t g = 0; g < sizeof(grains) / sizeof(grains[0]); g++) {
            KT_INT(run_cover(sizes[s], grains[g]), 0);
        }
    }
}

static void must_not_run(void *arg, int64_t begin, int64_t end)
{
    (void)begin;
    (void)end;
    *(bool *)arg = true;
}

static void an_empty_loop_does_nothing(void)
{
    bool has_run = false;

    kvsi_pool_parallel_for(0, 1, must_not_run, &has_run);
    kvsi_pool_parallel_for(-5, 1, must_not_run, &has_run);
    KT_TRUE(!has_run);
}

/* Pieces that wait for one another: only threads side by side get through. */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t came;
    int n_inside, n_most, n_wanted;
} meeting_t;

static void meet(void *arg, int64_t begin, int64_t end)
{
    meeting_t *meeting = arg;
    int64_t deadline = kt_deadline();

    (void)begin;
    (void)end;
    pthread_mutex_lock(&meeting->lock);
    meeting->n_inside++;
    if (meeting->n_inside > meeting->n_most) {
        meeting->n_most = meeting->n_inside;
    }
    pthread_cond_broadcast(&meeting->came);
    while (meeting->n_most < meeting->n_wanted) {
        kt_cond_wait(&meeting->came, &meeting->lock, deadline, "pieces side by side");
    }
    meeting->n_inside--;
    pthread_mutex_unlock(&meeting->lock);
}

static meeting_t new_meeting(int n_wanted)
{
    meeting_t meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .n_wanted = n_wanted};

    kt_cond_init(&meeting.came);
    return meeting;
}

static void as_many_threads_as_set_work_at_a_loop_and_no_more(void)
{
    meeting_t meeting = new_meeting(THREADS);

    kvsi_pool_parallel_for(1000, 1, meet, &meeting);
    KT_INT(meeting.n_most, THREADS);
}

typedef struct nest {
    int64_t n;
    atomic_int n_wrong;
} nest_t;

static void run_inner(void *arg, int64_t begin, int64_t end)
{
    nest_t *nest = arg;

    for (int64_t i = begin; i < end; i++) {
        atomic_fetch_add(&nest->n_wrong, (int)run_cover(nest->n + i, 5));
    }
}

static void a_piece_may_run_a_loop(void)
{
    nest_t nest = {.n = 300};

    kvsi_pool_parallel_for(50, 1, run_inner, &nest);
    KT_INT(nest.n_wrong, 0);
}

typedef struct looper {
    kt_thread_t thread;
    int64_t n_wrong;
} looper_t;

static void loop_often(void *arg)
{
    looper_t *looper = arg;

    for (int64_t i = 0; i < 200; i++) {
        looper->n_wrong += run_cover(100 + i, 1 + i % 7);
    }
}

static void several_threads_may_run_loops_at_once(void)
{
    looper_t loopers[6] = {0};

    for (int i = 0; i < 6; i++) {
        kt_thread_start(&loopers[i].thread, loop_often, &loopers[i]);
    }
    for (int i = 0; i < 6; i++) {
        kt_thread_join(&loopers[i].thread);
        KT_INT(loopers[i].n_wrong, 0);
    }
}

/* ---- Works ----------------------------------------------------------------------------------- */

typedef struct job {
    kvsi_work_t work; /* first */
    atomic_int *n_left;
    atomic_int n_runs;
} job_t;

static void run_job(kvsi_work_t *work)
{
    job_t *job = (job_t *)work;

    atomic_fetch_add(&job->n_runs, 1);
    atomic_fetch_sub(job->n_left, 1);
}

static bool is_zero(void *arg)
{
    return atomic_load((atomic_int *)arg) == 0;
}

enum { JOBS = 2000, SUBMITTERS = 4 };

typedef struct submitter {
    kt_thread_t thread;
    job_t *jobs;
} submitter_t;

static void submit_all(void *arg)
{
    submitter_t *submitter = arg;

    for (int i = 0; i < JOBS; i++) {
        kvsi_pool_submit(&submitter->jobs[i].work);
    }
}

static void each_work_runs_once_whoever_submits(void)
{
    static job_t jobs[SUBMITTERS][JOBS];
    static atomic_int n_left = SUBMITTERS * JOBS;
    submitter_t submitters[SUBMITTERS];
    int n_wrong = 0;

    KT_OK(kvsi_pool_start());
    for (int s = 0; s < SUBMITTERS; s++) {
        for (int i = 0; i < JOBS; i++) {
            jobs[s][i] =
                (job_t){.work = {.run = run_job, .priority = i % 3, .sequence = (uint64_t)i},
                        .n_left = &n_left};
        }
        submitters[s].jobs = jobs[s];
        kt_thread_start(&submitters[s].thread, submit_all, &submitters[s]);
    }
    for (int s = 0; s < SUBMITTERS; s++) {
        kt_thread_join(&submitters[s].thread);
    }
    kt_until(is_zero, &n_left, "all works");
    for (int i = 0; i < SUBMITTERS * JOBS; i++) {
        n_wrong += jobs[i / JOBS][i % JOBS].n_runs != 1;
    }
    KT_INT(n_wrong, 0);
}

/* A work that stays on its thread until the gate opens. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n_inside;
    bool is_open;
} gate_t;

typedef struct guest {
    kvsi_work_t work; /* first */
    gate_t *gate;
} guest_t;

static void stay(kvsi_work_t *work)
{
    gate_t *gate = ((guest_t *)work)->gate;
    int64_t deadline = kt_deadline();

    pthread_mutex_lock(&gate->lock);
    gate->n_inside++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->is_open) {
        kt_cond_wait(&gate->changed, &gate->lock, deadline, "the gate");
    }
    gate->n_inside--;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void wait_inside(gate_t *gate, int n)
{
    int64_t deadline = kt_deadline();

    pthread_mutex_lock(&gate->lock);
    while (gate->n_inside != n) {
        kt_cond_wait(&gate->changed, &gate->lock, deadline, "works to begin or end");
    }
    pthread_mutex_unlock(&gate->lock);
}

static void a_loop_needs_no_free_thread_of_the_pool(void)
{
    gate_t gate = {.lock = PTHREAD_MUTEX_INITIALIZER};
    guest_t guests[THREADS];

    kt_cond_init(&gate.changed);
    for (int i = 0; i < THREADS; i++) {
        guests[i] = (guest_t){{.run = stay}, &gate};
        kvsi_pool_submit(&guests[i].work);
    }
    wait_inside(&gate, THREADS); /* all of them run at once, and no thread is left */
    KT_INT(run_cover(1000, 1), 0);
    pthread_mutex_lock(&gate.lock);
    gate.is_open = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
    wait_inside(&gate, 0);
}

static void the_number_of_threads_is_set_once(void)
{
    kvsi_pool_set_threads(9);
    KT_INT(kvsi_pool_n_threads(), THREADS);
    KT_OK(kvsi_pool_start());
    KT_INT(kvsi_pool_n_threads(), THREADS);
}

static const kt_test_t tests[] = {
    KT_TEST(a_loop_covers_its_range_exactly_once_in_multiples_of_its_grain),
    KT_TEST(an_empty_loop_does_nothing),
    KT_TEST(as_many_threads_as_set_work_at_a_loop_and_no_more),
    KT_TEST(a_piece_may_run_a_loop),
    KT_TEST(several_threads_may_run_loops_at_once),
    KT_TEST(each_work_runs_once_whoever_submits),
    KT_TEST(a_loop_needs_no_free_thread_of_the_pool),
    KT_TEST(the_number_of_threads_is_set_once),
};

int main(int argc, char **argv)
{
    kvsi_pool_set_threads(THREADS);
    return kt_run("pool", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
