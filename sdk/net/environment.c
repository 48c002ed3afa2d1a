/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c - who am I: kvs_net_settings_read, whose comment in net.h has the rules.
 *
 * Everything is looked at before anything is complained of, so that one error names all that is
 * missing or malformed. Nothing is resolved or connected here. */
#include "address.h"
#include "clocale.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COUNT 65535

typedef struct launcher {
    const char *name;
    const char *size, *rank, *local_rank;
    const char *local_size; /* NULL: none says */
    const char *n_hosts;    /* NULL: none says */
    const char *job[2];     /* its number of the job: those of the two that are there */
} launcher_t;

static const launcher_t launchers[] = {
    {"torchrun",
     "WORLD_SIZE",
     "RANK",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     NULL,
     {"TORCHELASTIC_RUN_ID", NULL}},
    {"Horovod",
     "HOROVOD_SIZE",
     "HOROVOD_RANK",
     "HOROVOD_LOCAL_RANK",
     "HOROVOD_LOCAL_SIZE",
     NULL,
     {NULL, NULL}},
    {"Open MPI",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"Slurm",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_PROCID",
     "SLURM_LOCALID",
     NULL,
     "SLURM_STEP_NUM_NODES",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"PMI",
     "PMI_SIZE",
     "PMI_RANK",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     NULL,
     {"PMI_JOBID", NULL}},
};

typedef struct reader {
    kvs_net_lookup_t lookup;
    void *arg;
    char problems[1600]; /* "; "-separated */
} reader_t;

/* A value and the variable it came from; text NULL: not set. */
typedef struct value {
    const char *text;
    const char *variable;
} value_t;

/* The five that say who we are. */
typedef struct given {
    value_t role, rank, n_workers, n_servers;
    value_t scheduler, root_uri, root_port;
} given_t;

/* ---- Variables ------------------------------------------------------------------------------- */

static void complain(reader_t *r, const char *format, ...) KVS_PRINTF(2, 3);
static void complain(reader_t *r, const char *format, ...)
{
    size_t used = strlen(r->problems);
    va_list args;

    if (used > 0 && used + 3 < sizeof(r->problems)) {
        used += (size_t)snprintf(r->problems + used, sizeof(r->problems) - used, "; ");
    }
    va_start(args, format);
    net_c_vsnprintf(r->problems + used, sizeof(r->problems) - used, format, args);
    va_end(args);
}

static const char *environment_of(void *arg, const char *variable)
{
    (void)arg;
    return secure_getenv(variable);
}

static value_t look(reader_t *r, const char *variable)
{
    const char *text = variable == NULL ? NULL : r->lookup(r->arg, variable);

    return (value_t){text != NULL && *text != '\0' ? text : NULL, variable};
}

static value_t either(reader_t *r, const char *variable, const char *other)
{
    value_t value = look(r, variable);
    value_t second = value.text == NULL ? look(r, other) : value;

    return second.text != NULL ? second : value;
}

/* `preset` if it is not set or malformed; the latter is complained of. */
static int integer(reader_t *r, value_t value, int min, int max, int preset)
{
    char *end;
    long number;

    if (value.text == NULL) {
        return preset;
    }
    errno = 0;
    number = strtol(value.text, &end, 10);
    if (errno != 0 || end == value.text || *end != '\0' || *value.text == ' ' || number < min ||
        number > max) {
        complain(r, "%s is '%s', not a whole number from %d to %d", value.variable, value.text, min,
                 max);
        return preset;
    }
    return (int)number;
}

/* Seconds as milliseconds; 0 is `zero`. */
static int64_t milliseconds(reader_t *r, value_t value, int64_t preset, int64_t zero)
{
    char *end;
    double seconds;

    if (value.text == NULL) {
        return preset;
    }
    /* A decimal point, whatever the program's locale is; "C" is built in and needs no freeing. */
    seconds = strtod_l(value.text, &end, newlocale(LC_ALL_MASK, "C", (locale_t)0));
    if (end == value.text || *end != '\0' || !isfinite(seconds) || seconds < 0 || seconds > 1e9 ||
        (seconds == 0 && zero == 0)) {
        complain(r, "%s is '%s', not a number of seconds%s", value.variable, value.text,
                 zero == 0 ? " above 0" : "");
        return preset;
    }
    return seconds == 0 ? zero : (int64_t)ceil(seconds * 1000);
}

static void copy_text(reader_t *r, value_t value, char *to, size_t size)
{
    if (value.text == NULL) {
        return;
    }
    if (strlen(value.text) >= size) {
        complain(r, "%s is longer than %zu bytes", value.variable, size - 1);
        return;
    }
    memcpy(to, value.text, strlen(value.text) + 1);
}

static void missing(reader_t *r, value_t value, const char *other)
{
    complain(r, "%s%s%s%s is missing", value.variable, other == NULL ? "" : " (or ",
             other == NULL ? "" : other, other == NULL ? "" : ")");
}

/* ---- The five -------------------------------------------------------------------------------- */

static int role_of(reader_t *r, value_t value)
{
    static const int roles[] = {KVS_NET_WORKER, KVS_NET_SERVER, KVS_NET_SCHEDULER};

    for (size_t i = 0; i < 3 && value.text != NULL; i++) {
        if (strcasecmp(value.text, kvs_net_role_name(roles[i])) == 0) {
            return roles[i];
        }
    }
    if (value.text != NULL) {
        complain(r, "%s is '%s', not worker, server or scheduler", value.variable, value.text);
    }
    return KVS_NET_WORKER;
}

static given_t look_at_five(reader_t *r)
{
    given_t given = {.role = either(r, "KVSTORE_ROLE", "DMLC_ROLE"),
                     .n_workers = either(r, "KVSTORE_NUM_WORKERS", "DMLC_NUM_WORKER"),
                     .n_servers = either(r, "KVSTORE_NUM_SERVERS", "DMLC_NUM_SERVER"),
                     .scheduler = look(r, "KVSTORE_SCHEDULER"),
                     .root_uri = look(r, "DMLC_PS_ROOT_URI"),
                     .root_port = look(r, "DMLC_PS_ROOT_PORT")};
    bool server = given.role.text != NULL && strcasecmp(given.role.text, "server") == 0;

    given.rank = either(r, "KVSTORE_RANK", server ? "DMLC_SERVER_ID" : "DMLC_WORKER_ID");
    return given;
}

static bool has_scheduler(const given_t *given)
{
    return given->scheduler.text != NULL || given->root_uri.text != NULL ||
           given->root_port.text != NULL;
}

static bool has_any(const given_t *given)
{
    return given->role.text != NULL || given->rank.text != NULL || given->n_workers.text != NULL ||
           given->n_servers.text != NULL || has_scheduler(given);
}

static void join_address(reader_t *r, const char *host, int port, kvs_net_settings_t *settings)
{
    int n = snprintf(settings->scheduler, sizeof(settings->scheduler),
                     strchr(host, ':') == NULL ? "%s:%d" : "[%s]:%d", host, port);

    if (n < 0 || (size_t)n >= sizeof(settings->scheduler)) {
        complain(r, "the scheduler's host is longer than 255 bytes");
    }
}

static void read_scheduler(reader_t *r, const given_t *given, kvs_net_settings_t *settings)
{
    char host[NET_HOST_MAX];
    int port = 0;

    if (given->scheduler.text != NULL) {
        copy_text(r, given->scheduler, settings->scheduler, sizeof(settings->scheduler));
        if (net_address_split(given->scheduler.text, host, &port) != KVS_OK) {
            complain(r, "%s is '%s', not host:port or [host]:port", given->scheduler.variable,
                     given->scheduler.text);
        }
    } else if (has_scheduler(given)) {
        if (given->root_uri.text == NULL) {
            missing(r, given->root_uri, NULL);
        }
        if (given->root_port.text == NULL) {
            missing(r, given->root_port, NULL);
        }
        port = integer(r, given->root_port, 0, 65535, 0);
        if (given->root_uri.text != NULL) {
            join_address(r, given->root_uri.text, port, settings);
        }
    }
}

/* ---- Launchers ------------------------------------------------------------------------------- */

static const launcher_t *find_launcher(reader_t *r)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        if (look(r, launchers[i].size).text != NULL) {
            return &launchers[i];
        }
    }
    return NULL;
}

static int count_of(reader_t *r, const char *variable, int max, int preset)
{
    return integer(r, look(r, variable), 1, max, preset);
}

/* 1: all processes on one host; 0: on several; -1: nobody says. */
static int is_one_host(reader_t *r, const launcher_t *launcher, int n_workers)
{
    int local = launcher == NULL ? -1 : count_of(r, launcher->local_size, MAX_COUNT, -1);
    int hosts = launcher == NULL ? -1 : count_of(r, launcher->n_hosts, MAX_COUNT, -1);

    if (hosts > 0) {
        return hosts == 1;
    }
    return local < 0 ? -1 : local >= n_workers;
}

/* The first host of Slurm's list: "gpu[03-07,12],login1" -> "gpu03". */
static void first_of(const char *list, char *ret_host, size_t size)
{
    size_t n = 0;
    bool inside = false, skipping = false;

    for (const char *at = list; *at != '\0' && (inside || *at != ',') && n + 1 < size; at++) {
        if (*at == '[' || *at == ']') {
            inside = *at == '[';
            skipping = false;
        } else if (inside && (*at == '-' || *at == ',')) {
            skipping = true;
        } else if (!skipping) {
            ret_host[n++] = *at;
        }
    }
    ret_host[n] = '\0';
}

/* A job over several hosts without servers of its own: where rank 0's process is. */
static void find_first_host(reader_t *r, const launcher_t *launcher, kvs_net_settings_t *settings)
{
    value_t address = look(r, "MASTER_ADDR"), port = look(r, "MASTER_PORT");
    value_t nodes = look(r, "SLURM_STEP_NODELIST"), job = look(r, "SLURM_JOB_ID");
    char host[NET_HOST_MAX];

    if (address.text != NULL && port.text != NULL) {
        join_address(r, address.text, integer(r, port, 1, 65534, 0) + 1, settings);
    } else if (address.text != NULL) {
        missing(r, port, "KVSTORE_SCHEDULER");
    } else if (strcmp(launcher->name, "Slurm") == 0 && nodes.text != NULL && job.text != NULL) {
        first_of(nodes.text, host, sizeof(host));
        join_address(r, host, 20000 + (int)(strtoul(job.text, NULL, 10) % 10000), settings);
    } else {
        complain(r, "the job spans hosts, and KVSTORE_SCHEDULER (or MASTER_ADDR and MASTER_PORT), "
                    "a free port on rank 0's host, is missing");
    }
}

static void read_job_id(reader_t *r, const launcher_t *launcher, kvs_net_settings_t *settings)
{
    value_t given = look(r, "KVSTORE_JOB_ID");
    value_t first = look(r, launcher == NULL ? NULL : launcher->job[0]);
    value_t second = look(r, launcher == NULL ? NULL : launcher->job[1]);

    if (given.text != NULL) {
        copy_text(r, given, settings->job_id, sizeof(settings->job_id));
    } else if (first.text != NULL || second.text != NULL) {
        snprintf(settings->job_id, sizeof(settings->job_id), "%s%s%s",
                 first.text == NULL ? "" : first.text,
                 first.text == NULL || second.text == NULL ? "" : ".",
                 second.text == NULL ? "" : second.text);
    } else {
        snprintf(settings->job_id, sizeof(settings->job_id), "default");
    }
}

/* ---- Together -------------------------------------------------------------------------------- */

static void read_counts(reader_t *r, const given_t *given, const launcher_t *launcher,
                        kvs_net_settings_t *settings)
{
    value_t size = given->n_workers, rank = given->rank;
    bool worker = settings->role == KVS_NET_WORKER;
    int n;

    if (launcher != NULL && worker) {
        size = size.text != NULL ? size : look(r, launcher->size);
        rank = rank.text != NULL ? rank : look(r, launcher->rank);
        if (rank.text == NULL) {
            missing(r, rank, "KVSTORE_RANK");
        }
        settings->local_rank =
            integer(r, look(r, launcher->local_rank), 0, MAX_COUNT - 1, settings->local_rank);
    }
    if (size.text == NULL) {
        missing(r, size, "DMLC_NUM_WORKER");
    }
    settings->n_workers = integer(r, size, 1, MAX_COUNT, 1);
    settings->n_servers = integer(r, given->n_servers, 0, MAX_COUNT, 0);
    n = worker ? settings->n_workers : settings->n_servers;
    if (size.text != NULL && n > 0 && settings->role != KVS_NET_SCHEDULER) {
        settings->rank = integer(r, rank, 0, n - 1, -1);
    }
}

/* A scheduler and servers of their own: everything has to be said. */
static void complete_dedicated(reader_t *r, const given_t *given, kvs_net_settings_t *settings)
{
    if (given->n_servers.text == NULL) {
        missing(r, given->n_servers, "DMLC_NUM_SERVER");
    } else if (settings->n_servers == 0 && settings->role == KVS_NET_SERVER) {
        complain(r, "%s is 0, but this process is a server", given->n_servers.variable);
    } else if (settings->n_servers == 0) {
        settings->embed = KVS_NET_EMBED_SERVERS;
    }
    if (!has_scheduler(given)) {
        missing(r, given->scheduler, "DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT");
    }
}

static void complete_embedded(reader_t *r, const given_t *given, const launcher_t *launcher,
                              kvs_net_settings_t *settings)
{
    settings->embed = KVS_NET_EMBED_SCHEDULER | KVS_NET_EMBED_SERVERS;
    if (settings->n_workers == 1) {
        settings->rank = 0;
        settings->local_rank = 0;
    } else if (settings->rank < 0 && given->rank.text == NULL && launcher == NULL) {
        missing(r, given->rank, "KVSTORE_ROLE with servers and a scheduler");
    } else if (!has_scheduler(given) && launcher != NULL &&
               is_one_host(r, launcher, settings->n_workers) == 0) {
        find_first_host(r, launcher, settings);
    }
}

static void read_times(reader_t *r, kvs_net_settings_t *settings)
{
    value_t beat = either(r, "KVSTORE_HEARTBEAT", "PS_HEARTBEAT_INTERVAL");
    value_t dead = either(r, "KVSTORE_DEAD_AFTER", "PS_HEARTBEAT_TIMEOUT");
    bool ours = strncmp(beat.variable, "KVSTORE", 7) == 0;

    if (!ours && strcmp(beat.text, "0") == 0) {
        beat.text = NULL; /* ps-lite's default, off: ours is on */
    }
    if (strncmp(dead.variable, "KVSTORE", 7) != 0 && strcmp(dead.text, "0") == 0) {
        dead.text = NULL;
    }
    settings->heartbeat_ms = milliseconds(r, beat, 2000, 0);
    settings->dead_after_ms = milliseconds(r, dead, 15000, 0);
    settings->rendezvous_ms = milliseconds(r, look(r, "KVSTORE_RENDEZVOUS"), 300000, -1);
    if (settings->dead_after_ms < 2 * settings->heartbeat_ms) {
        complain(r, "%s (%g s) is less than twice %s (%g s)", dead.variable,
                 (double)settings->dead_after_ms / 1000, beat.variable,
                 (double)settings->heartbeat_ms / 1000);
    }
}

static void read_rest(reader_t *r, const launcher_t *launcher, kvs_net_settings_t *settings)
{
    read_job_id(r, launcher, settings);
    copy_text(r, either(r, "KVSTORE_NODE_HOST", "DMLC_NODE_HOST"), settings->node_host,
              sizeof(settings->node_host));
    copy_text(r, either(r, "KVSTORE_INTERFACE", "DMLC_INTERFACE"), settings->interface,
              sizeof(settings->interface));
    settings->insecure = integer(r, look(r, "KVSTORE_INSECURE"), 0, 1, 0);
    settings->shm =
        integer(r, look(r, "KVSTORE_SHM"), 0, 1, 1) == 0 ? KVS_NET_SHM_OFF : KVS_NET_SHM_AUTO;
    read_times(r, settings);
}

static void name_rule(const given_t *given, const launcher_t *launcher,
                      kvs_net_settings_t *settings)
{
    bool own = has_any(given);
    bool used = launcher != NULL && settings->role == KVS_NET_WORKER;

    snprintf(settings->rule, sizeof(settings->rule), "%s%s%s",
             own    ? "KVSTORE_* and DMLC_* variables"
             : used ? ""
                    : "none",
             own && used ? ", then " : "", used ? launcher->name : "");
}

kvs_status_t kvs_net_settings_read(kvs_net_lookup_t lookup, void *arg,
                                   kvs_net_settings_t *ret_settings)
{
    reader_t reader = {lookup == NULL ? environment_of : lookup, arg, ""};
    kvs_net_settings_t settings = KVS_NET_SETTINGS_INIT;
    given_t given = look_at_five(&reader);
    const launcher_t *launcher = find_launcher(&reader);

    settings.role = role_of(&reader, given.role);
    if (has_any(&given) || launcher != NULL) {
        read_counts(&reader, &given, launcher, &settings);
    }
    read_scheduler(&reader, &given, &settings);
    if (given.role.text != NULL || settings.n_servers > 0 ||
        (launcher == NULL && has_scheduler(&given) && given.n_servers.text == NULL)) {
        complete_dedicated(&reader, &given, &settings);
    } else {
        complete_embedded(&reader, &given, launcher, &settings);
    }
    read_rest(&reader, launcher, &settings);
    name_rule(&given, launcher, &settings);
    if (reader.problems[0] != '\0') {
        return kvs_fail(KVS_ERR_ARGUMENT, "the environment of this process: %s", reader.problems);
    }
    *ret_settings = settings;
    return KVS_OK;
}

const char *kvs_net_role_name(int role)
{
    return role == KVS_NET_WORKER      ? "worker"
           : role == KVS_NET_SERVER    ? "server"
           : role == KVS_NET_SCHEDULER ? "scheduler"
                                       : "node";
}
