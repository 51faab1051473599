"""Ordinary differential equations: solvers as tables, and one call that runs them."""

from gread.ode.integrate import MAX_EVALUATIONS as MAX_EVALUATIONS
from gread.ode.integrate import IntegrationError as IntegrationError
from gread.ode.integrate import Solution as Solution
from gread.ode.integrate import VectorField as VectorField
from gread.ode.integrate import count_steps as count_steps
from gread.ode.integrate import finite as finite
from gread.ode.integrate import integrate as integrate
from gread.ode.integrate import steps as steps
from gread.ode.integrate import walk as walk
from gread.ode.tableau import SOLVERS as SOLVERS
from gread.ode.tableau import Adaptive as Adaptive
from gread.ode.tableau import Tableau as Tableau
