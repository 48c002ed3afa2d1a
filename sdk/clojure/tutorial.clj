;; SPDX-License-Identifier: Apache-2.0
;; tutorial.clj - what the KVStore tutorial of MXNet's Clojure package shows, step by step, each value
;; compared with the one that is published there. The calls are written as a user of that package does.
(ns tutorial
  (:require [org.apache.clojure-mxnet.context :as context]
            [org.apache.clojure-mxnet.kvstore :as kvstore]
            [org.apache.clojure-mxnet.ndarray :as ndarray]))

(def wrong (atom 0))

(defn show
  "Prints what a step gave, and counts it if it is not what is published."
  [step value published]
  (let [same (= value published)]
    (println (if same "ok   " "WRONG") step (pr-str value))
    (when-not same
      (println "      published:" (pr-str published))
      (swap! wrong inc))))

(def shape [2 3])
(defn six [x] (vec (repeat 6 x)))

;; A key is made with a value, and pulled into an array of that shape.
(def kv (kvstore/create "local"))
(def a (ndarray/zeros shape))
(kvstore/init kv ["3"] [(ndarray/* (ndarray/ones shape) 2)])
(kvstore/pull kv ["3"] [a])
(show "the shape of an array" (ndarray/shape a) shape)
(show "init with twos, then pull" (ndarray/->vec a) (six 2.0))

;; A push replaces the value.
(kvstore/push kv ["3"] [(ndarray/* (ndarray/ones shape) 8)])
(kvstore/pull kv ["3"] [a])
(show "push of eights, then pull" (ndarray/->vec a) (six 8.0))

;; Values of several devices for one key are summed first.
(def from-devices (for [device-id (range 3)]
                    (ndarray/ones shape {:ctx (context/cpu device-id)})))
(kvstore/push kv ["3" "3" "3"] (vec from-devices))
(kvstore/pull kv "3" a)
(show "push of ones from three devices, then pull" (ndarray/->vec a) (six 3.0))

;; One pull writes the arrays of several devices.
(def to-devices [(ndarray/zeros shape {:ctx (context/cpu 0)}) (ndarray/zeros shape {:ctx (context/cpu 1)})])
(kvstore/pull kv ["3" "3"] to-devices)
(show "pull into two devices" (map ndarray/->vec to-devices) [(six 3.0) (six 3.0)])

;; Lists of keys.
(def ks ["5" "7" "9"])
(defn three-of [make] (vec (repeatedly 3 #(make shape))))
(def outs (three-of ndarray/zeros))
(kvstore/init kv ks (three-of ndarray/ones))
(kvstore/push kv ks (three-of ndarray/ones))
(kvstore/pull kv ks outs)
(show "three keys in one call" (map ndarray/->vec outs) (repeat 3 (six 1.0)))

;; Arithmetic of arrays.
(show "array + array" (ndarray/->vec (ndarray/+ a (ndarray/ones shape))) (six 4.0))

(kvstore/dispose kv)
(println (if (zero? @wrong) "tutorial: all values are those published" (str "tutorial: " @wrong " values are wrong")))
(System/exit (if (zero? @wrong) 0 1))
