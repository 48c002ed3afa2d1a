/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_conformance.c - `kvstore conformance`: try the rules of a store on a backend, by name.
 *
 * Failures go to stdout as they come; the last line says how it went, and scripts may rely on it. */
#include "commands.h"

#include <conformance.h>

#include <getopt.h>
#include <stdio.h>
#include <string.h>

typedef struct request {
    const char *backend;
    kvs_conformance_options_t options;
    int list, json;
    size_t n_printed; /* results, for the commas of JSON */
} request_t;

static void print_json_string(const char *text)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            printf("\\%c", *c);
        } else if (*c < 0x20) {
            printf("\\u%04x", *c);
        } else {
            putchar(*c);
        }
    }
    putchar('"');
}

static void print_json_member(const char *name, const char *text)
{
    printf("\"%s\": ", name);
    print_json_string(text);
}

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
    printf("[");
    for (size_t i = 0; i < kvs_conformance_n_rules(); i++) {
        kvs_conformance_rule_t rule = kvs_conformance_rule(i);

        printf("%s\n  {", i > 0 ? "," : "");
        print_json_member("id", rule.id);
        printf(", ");
        print_json_member("rule", rule.text);
        printf("}");
    }
    printf("\n]\n");
}

/* ---- Running ------------------------------------------------------------------------------------- */

static void print_result(const kvs_conformance_result_t *result, void *arg)
{
    (void)arg;
    if (result->verdict == KVS_CONFORMANCE_FAILED) {
        printf("FAILED %s (%s): %s\n    %s\n", result->rule.id, result->device, result->rule.text,
               result->text);
        fflush(stdout);
    }
}

static void print_json_result(const kvs_conformance_result_t *result, void *arg)
{
    request_t *request = arg;

    printf("%s\n    {", request->n_printed++ > 0 ? "," : "");
    print_json_member("id", result->rule.id);
    printf(", ");
    print_json_member("device", result->device);
    printf(", ");
    print_json_member("verdict", kvs_conformance_verdict_text(result->verdict));
    printf(", ");
    print_json_member("text", result->text);
    printf("}");
}

static void print_json_counts(const kvs_conformance_counts_t *counts)
{
    printf("\n  ],\n  ");
    print_json_member("devices", counts->devices);
    printf(",\n  \"cases\": %zu,\n  \"passed\": %zu,\n  \"failed\": %zu,\n"
           "  \"not_applicable\": %zu\n}\n",
           counts->n_cases, counts->n_passed, counts->n_failed, counts->n_not_applicable);
}

static int run(request_t *request)
{
    kvs_conformance_counts_t counts;
    kvs_status_t status;

    request->options.on_result = request->json ? print_json_result : print_result;
    request->options.arg = request;
    if (request->json) {
        printf("{\n  ");
        print_json_member("backend", request->backend);
        printf(",\n  \"results\": [");
    }
    status = kvs_conformance_run(request->backend, &request->options, &counts);
    if (status != KVS_OK) {
        if (request->json) {
            printf("\n  ]\n}\n");
        }
        return cli_failed("conformance");
    }
    if (request->json) {
        print_json_counts(&counts);
    } else {
        printf("conformance %s: %zu cases, %zu passed, %zu failed, %zu not applicable (%s)\n",
               request->backend, counts.n_cases, counts.n_passed, counts.n_failed,
               counts.n_not_applicable, counts.devices);
    }
    return counts.n_failed > 0 || counts.n_cases == 0;
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

    optind = 0; /* start anew: the main program has looked at its own options */
    opterr = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'l':
            request->list = 1;
            break;
        case 'j':
            request->json = 1;
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
        if (request.json) {
            list_json();
        } else {
            list_text();
        }
        return 0;
    }
    return run(&request);
}
