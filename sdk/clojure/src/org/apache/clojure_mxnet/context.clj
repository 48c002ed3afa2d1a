;; SPDX-License-Identifier: Apache-2.0
;; context.clj - the device that an array is labelled with. Arrays of this binding lie in the host's
;; memory; several CPU numbers stand for several values on one host, as data-parallel code has them.
(ns org.apache.clojure-mxnet.context)

(defrecord Context [device-type device-id])

(defn cpu
  "CPU `device-id`, 0 if it isn't given."
  ([] (cpu 0))
  ([device-id] (->Context "cpu" (int device-id))))

(defn cpu-context [] (cpu))

(defn default-context
  "Where arrays are made that name no context: cpu 0."
  []
  (cpu))

(defn device-type
  "\"cpu\"."
  [context]
  (:device-type context))

(defn device-id [context]
  (:device-id context))
