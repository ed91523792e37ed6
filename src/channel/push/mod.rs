//! Push through Web Push with VAPID.
