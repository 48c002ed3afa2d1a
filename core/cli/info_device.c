/* SPDX-License-Identifier: Apache-2.0 */
/* info_device.c - see info_device.h. */
#include "info_device.h"

#include <stdio.h>
#include <string.h>

/* The type of devices that the plugin provides, or -1. */
static int32_t provided_type(const kvs_plugin_info_t *plugin)
{
    for (size_t i = 0; i < plugin->n_provides; i++) {
        if (strcmp(plugin->provides[i].kind, "device") == 0 &&
            strcmp(plugin->provides[i].name, "cuda") == 0) {
            return KVS_DEVICE_CUDA;
        }
    }
    return -1;
}

/* How many devices; 0 with this thread's error set if they can't be used. */
static int count(const kvs_plugin_info_t *plugin, int32_t type)
{
    int n = 0;

    return plugin->state == KVS_PLUGIN_OK && kvs_device_count(type, &n) == KVS_OK ? n : 0;
}

static const char *reason_of(const kvs_plugin_info_t *plugin)
{
    return plugin->state != KVS_PLUGIN_OK ? plugin->reason : kvs_last_error();
}

static int reaches(int32_t type, int from, int to)
{
    int how_well = 0;

    return kvs_device_reaches(type, from, to, &how_well) == KVS_OK ? how_well : 0;
}

/* ---- As text ------------------------------------------------------------------------------------- */

static void add_number(columns_t *columns, const char *format, unsigned long long number)
{
    char text[32];

    snprintf(text, sizeof(text), format, number);
    columns_add(columns, text);
}

static void print_devices(columns_t *columns, int32_t type, int n)
{
    kvs_device_info_t info = {.size = (uint32_t)sizeof(info)};

    columns->n_columns = 5;
    for (int i = 0; i < n; i++) {
        add_number(columns, "%llu", (unsigned long long)i);
        if (kvs_device_info((kvs_device_t){type, i}, &info) != KVS_OK) {
            info = (kvs_device_info_t){.size = (uint32_t)sizeof(info)};
            columns_add(columns, kvs_last_error());
        } else {
            columns_add(columns, info.name);
        }
        columns_add(columns, info.detail);
        add_number(columns, "%llu MiB", (unsigned long long)(info.total_bytes >> 20));
        add_number(columns, "%llu MiB free", (unsigned long long)(info.free_bytes >> 20));
    }
    printf("\ndevices%s%s\n", info.driver[0] != '\0' ? ", " : "", info.driver);
    columns->failed |= columns_print(columns, 2);
}

/* A device's row says whose memory its kernels touch: 0 no, else how well, 1 being least. */
static void print_matrix(columns_t *columns, int32_t type, int n)
{
    printf("\nreaches (0: by copies; else how well)\n");
    columns->n_columns = (size_t)n + 1;
    columns_add(columns, "");
    for (int i = 0; i < n; i++) {
        add_number(columns, "%llu", (unsigned long long)i);
    }
    for (int i = 0; i < n; i++) {
        add_number(columns, "%llu", (unsigned long long)i);
        for (int j = 0; j < n; j++) {
            if (i == j) {
                columns_add(columns, "");
            } else {
                add_number(columns, "%llu", (unsigned long long)reaches(type, i, j));
            }
        }
    }
    columns->failed |= columns_print(columns, 2);
}

void cli_device_text(columns_t *columns, const kvs_plugin_info_t *plugin)
{
    int32_t type = provided_type(plugin);
    int n = type < 0 ? 0 : count(plugin, type);

    if (n > 0) {
        print_devices(columns, type, n);
        if (n > 1) {
            print_matrix(columns, type, n);
        }
    } else if (type >= 0) {
        printf("\ndevices\n  none: %s\n", reason_of(plugin));
    }
}

/* ---- As JSON ------------------------------------------------------------------------------------- */

static void device_json(json_t *json, int32_t type, int id, int n)
{
    kvs_device_info_t info = {.size = (uint32_t)sizeof(info)};
    int is_known = kvs_device_info((kvs_device_t){type, id}, &info) == KVS_OK;

    json_open(json, NULL, '{');
    json_integer(json, "id", id);
    json_text(json, "name", is_known ? info.name : NULL);
    json_text(json, "driver", is_known ? info.driver : NULL);
    json_text(json, "detail", is_known ? info.detail : NULL);
    json_integer(json, "total_bytes", (long long)info.total_bytes);
    json_integer(json, "free_bytes", (long long)info.free_bytes);
    json_open(json, "reaches", '[');
    for (int j = 0; j < n; j++) {
        json_integer(json, NULL, id == j ? 0 : reaches(type, id, j));
    }
    json_close(json, ']');
    json_close(json, '}');
}

void cli_device_json(json_t *json, const kvs_plugin_info_t *plugin)
{
    int32_t type = provided_type(plugin);

    if (type < 0) {
        return;
    }
    int n = count(plugin, type);

    json_open(json, "hardware", '{');
    json_text(json, "reason", n > 0 ? NULL : reason_of(plugin));
    json_open(json, "devices", '[');
    for (int i = 0; i < n; i++) {
        device_json(json, type, i, n);
    }
    json_close(json, ']');
    json_close(json, '}');
}
