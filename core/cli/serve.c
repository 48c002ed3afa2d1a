/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - the role is an option of create like any other, so that a backend needs no second way in;
 * everything else is told by the environment. */
#include "serve.h"

#include "commands.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 3

typedef struct request {
    const char *backend;
    kvs_option_t options[MAX_OPTIONS];
    size_t n_options;
} request_t;

static void add(request_t *request, const char *name, const char *value)
{
    request->options[request->n_options++] = (kvs_option_t){name, value};
}

/* 0, or the exit status of wrong usage. */
static int parse(int argc, char **argv, request_t *request)
{
    static const struct option options[] = {
        {"backend", required_argument, NULL, 'b'},
        {"address", required_argument, NULL, 'a'},
        {"announce", required_argument, NULL, 'n'},
        {NULL, 0, NULL, 0},
    };
    int is_scheduler = strcmp(argv[0], "scheduler") == 0, option;
    const char *address = NULL, *announce = NULL;

    opterr = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'b') {
            request->backend = optarg;
        } else if (option == 'a' && is_scheduler) {
            address = optarg;
        } else if (option == 'n' && is_scheduler) {
            announce = optarg;
        } else {
            return cli_usage_error(argv[0], "unknown option, or without its value: %s",
                                   argv[optind - 1]);
        }
    }
    if (optind < argc) {
        return cli_usage_error(argv[0], "\"%s\" is one argument too many", argv[optind]);
    }
    add(request, "role", argv[0]);
    if (address != NULL) {
        add(request, "scheduler", address);
    }
    if (announce != NULL) {
        add(request, "announce", announce);
    }
    return 0;
}

static const char *default_backend(void)
{
    const char *name = getenv("KVSTORE_DEFAULT");

    return name != NULL && name[0] != '\0' ? name : "dist_sync";
}

int serve(int argc, char **argv)
{
    request_t request = {.backend = default_backend()};
    kvs_store_t *store = NULL;
    kvs_status_t status;
    int usage = parse(argc, argv, &request);

    if (usage != 0) {
        return usage;
    }
    status = kvs_store_create(request.backend, request.options, request.n_options, &store);
    if (status == KVS_OK) {
        status = kvs_store_run_server(store);
    }
    if (status != KVS_OK) {
        cli_failed(argv[0]);
        (void)kvs_store_close(store); /* the first error is told */
        return 1;
    }
    return kvs_store_close(store) == KVS_OK ? 0 : cli_failed(argv[0]);
}
