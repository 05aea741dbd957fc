//! Lists that describe a battery, which every version titles otherwise.

use super::super::battery::Battery;
use crate::json::Json;
use crate::lines::plain;

/// A list that describes a battery.
#[derive(Clone, Copy)]
pub(super) enum Section {
    Bbu,
    CacheVault,
    EnergyPack,
    /// Its flags, gauge, design or properties, under a title that does not say of what.
    Further,
}

pub(super) fn battery_section(name: &str) -> Option<Section> {
    const FURTHER: [&str; 5] = [
        "firmwarestatus",
        "gasgaugestatus",
        "designinfo",
        "properties",
        "capacityinfo",
    ];
    let name = name.replace(['_', ' '], "");
    let about = |prefix: &str| {
        let rest = name.strip_prefix(prefix);
        rest.is_some_and(|rest| rest == "info" || rest == "status" || FURTHER.contains(&rest))
    };
    if about("cachevault") || about("cv") {
        Some(Section::CacheVault)
    } else if about("energypack") {
        Some(Section::EnergyPack)
    } else if about("bbu") {
        Some(Section::Bbu)
    } else if FURTHER.contains(&name.as_str()) {
        Some(Section::Further)
    } else {
        None
    }
}

/// A row of a summary, or one property with its value.
pub(super) fn read_battery(battery: &mut Battery, row: &Json) {
    if let (Some(property), Some(value)) = (row.get("Property"), row.get("Value")) {
        battery.field(&plain(&property.said()), &value.said());
        return;
    }
    for (key, value) in row.entries() {
        battery.field(&plain(key), &value.said());
    }
}
