"""Short names of components and systems that configs may use under `systems`, beside `package.module:Name`."""

from __future__ import annotations

SYSTEMS = {
    "branch": "jmbs.library.electric:Branch",
    "capacitor": "jmbs.library.electric:Capacitor",
    "conduction": "jmbs.library.thermal:Conduction",
    "convection": "jmbs.library.thermal:convection",
    "dc_motor": "jmbs.library.motor:dc_motor",
    "environment": "jmbs.ephs:Environment",
    "inductor": "jmbs.library.electric:Inductor",
    "motor_coupling": "jmbs.library.motor:MotorCoupling",
    "resistor": "jmbs.library.electric:Resistor",
    "rotor": "jmbs.library.mechanics:Rotor",
    "series_coupling": "jmbs.library.electric:series_coupling",
    "series_rlc": "jmbs.library.electric:series_rlc",
}
"""Name to `package.module:Name`; imported when it is used."""
