/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_conformance.c - `kvstore conformance`: try the rules of a store on a backend, by name.
 *
 * A line for each rule as it was tried; the last line counts them, and scripts may rely on it. --json:
 * {"backend", "results": [{"id", "device", "verdict", "text"}], "devices", "cases", "passed", "failed",
 * "not_applicable"}; with --list an array of {"id", "rule"}. */
#include "commands.h"
#include "json.h"

#include <conformance.h>

#include <getopt.h>
#include <stdio.h>
#include <string.h>

typedef struct request {
    const char *backend;
    kvs_conformance_options_t options;
    int list, as_json;
    json_t json;
} request_t;

/* ---- --list -------------------------------------------------------------------------------------- */

static int longest_id(void)
{
    size_t longest = 0;

    for (size_t i = 0; i < kvs_conformance_n_rules(); i++) {
        size_t length = strlen(kvs_conformance_rule(i).id);

        longest = length > longest ? length : longest;
    }
    return (int)longest;
}

static void list_text(void)
{
    int width = longest_id();

    for (size_t i = 0; i < kvs_conformance_n_rules(); i++) {
        kvs_conformance_rule_t rule = kvs_conformance_rule(i);

        printf("%-*s  %s\n", width, rule.id, rule.text);
    }
}

static void list_json(void)
{
    json_t json = JSON_INIT;

    json_open(&json, NULL, '[');
    for (size_t i = 0; i < kvs_conformance_n_rules(); i++) {
        kvs_conformance_rule_t rule = kvs_conformance_rule(i);

        json_open(&json, NULL, '{');
        json_text(&json, "id", rule.id);
        json_text(&json, "rule", rule.text);
        json_close(&json, '}');
    }
    json_close(&json, ']');
}

/* ---- Running ------------------------------------------------------------------------------------- */

static void print_result(const kvs_conformance_result_t *result, void *arg)
{
    const char *verdict = kvs_conformance_verdict_text(result->verdict);

    (void)arg;
    switch (result->verdict) {
    case KVS_CONFORMANCE_PASSED:
        printf("%-14s  %s\n", verdict, result->rule.id);
        break;
    case KVS_CONFORMANCE_NOT_APPLICABLE:
        printf("%-14s  %s: %s\n", verdict, result->rule.id, result->text);
        break;
    case KVS_CONFORMANCE_FAILED:
        printf("%-14s  %s (%s): %s\n    %s\n", "FAILED", result->rule.id, result->device,
               result->rule.text, result->text);
        break;
    }
    fflush(stdout); /* should the backend crash, the last line tells where */
}

static void print_json_result(const kvs_conformance_result_t *result, void *arg)
{
    request_t *request = arg;

    json_open(&request->json, NULL, '{');
    json_text(&request->json, "id", result->rule.id);
    json_text(&request->json, "device", result->device);
    json_text(&request->json, "verdict", kvs_conformance_verdict_text(result->verdict));
    json_text(&request->json, "text", result->text);
    json_close(&request->json, '}');
}

static kvs_status_t run_text(request_t *request, kvs_conformance_counts_t *counts)
{
    kvs_status_t status;

    request->options.on_result = print_result;
    status = kvs_conformance_run(request->backend, &request->options, counts);
    if (status == KVS_OK) {
        printf("conformance %s: %zu cases, %zu passed, %zu failed, %zu not applicable (%s)\n",
               request->backend, counts->n_cases, counts->n_passed, counts->n_failed,
               counts->n_not_applicable, counts->devices);
    }
    return status;
}

static kvs_status_t run_json(request_t *request, kvs_conformance_counts_t *counts)
{
    json_t *json = &request->json;
    kvs_status_t status;

    request->options.on_result = print_json_result;
    request->options.arg = request;
    json_open(json, NULL, '{');
    json_text(json, "backend", request->backend);
    json_open(json, "results", '[');
    status = kvs_conformance_run(request->backend, &request->options, counts);
    json_close(json, ']');
    if (status == KVS_OK) {
        json_text(json, "devices", counts->devices);
        json_integer(json, "cases", (long long)counts->n_cases);
        json_integer(json, "passed", (long long)counts->n_passed);
        json_integer(json, "failed", (long long)counts->n_failed);
        json_integer(json, "not_applicable", (long long)counts->n_not_applicable);
    }
    json_close(json, '}');
    return status;
}

static int run(request_t *request)
{
    kvs_conformance_counts_t counts;
    kvs_status_t status =
        request->as_json ? run_json(request, &counts) : run_text(request, &counts);

    return status != KVS_OK ? cli_failed("conformance") : counts.n_failed > 0;
}

/* ---- The command line ---------------------------------------------------------------------------- */

/* 0, or the exit status of wrong usage. */
static int parse(int argc, char **argv, request_t *request)
{
    static const struct option options[] = {
        {"list", no_argument, NULL, 'l'},
        {"json", no_argument, NULL, 'j'},
        {"device", required_argument, NULL, 'd'},
        {"only", required_argument, NULL, 'o'},
        {NULL, 0, NULL, 0},
    };
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'l':
            request->list = 1;
            break;
        case 'j':
            request->as_json = 1;
            break;
        case 'd':
            request->options.device = optarg;
            break;
        case 'o':
            request->options.only = optarg;
            break;
        default:
            return cli_usage_error("conformance", "unknown option, or without its value: %s",
                                   argv[optind - 1]);
        }
    }
    if (argc - optind > 1) {
        return cli_usage_error("conformance", "one backend at a time, not \"%s\" as well",
                               argv[optind + 1]);
    }
    if (argc - optind < 1 && !request->list) {
        return cli_usage_error("conformance", "name a backend");
    }
    if (request->options.device != NULL && strcmp(request->options.device, "cpu") != 0 &&
        strcmp(request->options.device, "cuda") != 0) {
        return cli_usage_error("conformance", "--device is cpu or cuda, not \"%s\"",
                               request->options.device);
    }
    request->backend = argv[optind];
    return 0;
}

int cmd_conformance(int argc, char **argv)
{
    request_t request = {.options = KVS_CONFORMANCE_INIT};
    int status = parse(argc, argv, &request);

    if (status != 0) {
        return status;
    }
    if (request.list) {
        if (request.as_json) {
            list_json();
        } else {
            list_text();
        }
        return 0;
    }
    return run(&request);
}
